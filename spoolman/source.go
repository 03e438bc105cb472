package spoolman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"spoolwright/cli"
)

const (
	maxSource = 256 << 20
	spoolPath = "/api/v1/spool"
)

// serverLists are the lists of a Spoolman server that an import reads. name is the name of the list in a file with all
// lists.
var serverLists = []struct{ name, path string }{
	{"field_vendor", "/api/v1/field/vendor"}, {"field_filament", "/api/v1/field/filament"},
	{"field_spool", "/api/v1/field/spool"}, {"vendor", "/api/v1/vendor"}, {"filament", "/api/v1/filament"},
	{"spool", spoolPath + "?allow_archived=true"},
}

// serverAddress returns the address of a Spoolman server without the path of its API. remote is false if the source is
// a file.
func serverAddress(source string) (base *url.URL, remote bool, err error) {
	scheme, _, remote := strings.Cut(source, "://")
	if !remote {
		return nil, false, nil
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || scheme != "http" && scheme != "https" {
		return nil, true, errors.New("the address of Spoolman must be like http://spoolman.example:7912")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	for _, known := range []string{spoolPath, "/api/v1"} {
		u.Path = strings.TrimSuffix(u.Path, known)
	}
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	return u, true, nil
}

// stayOnHost rejects redirects to other hosts: the user named one server, and a server must not make the import send
// requests to others, for example inside the user's network.
func stayOnHost(request *http.Request, via []*http.Request) error {
	switch {
	case request.URL.Host != via[0].URL.Host:
		return fmt.Errorf("it redirects to another host, %s", request.URL.Host)
	case len(via) >= 10:
		return errors.New("it redirects more than 10 times")
	}
	return nil
}

// newClient returns a client for requests to a Spoolman server, and a function that ends its connections.
func newClient() (*http.Client, func()) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Minute, CheckRedirect: stayOnHost}
	return client, transport.CloseIdleConnections
}

// copyList copies a list of at most left bytes from the server, and returns its size. It writes an empty list if the
// server is too old to have custom fields.
func copyList(
	ctx context.Context, client *http.Client, base url.URL, path string, to io.Writer, left int64,
) (int64, error) {
	base.Path, base.RawQuery, _ = strings.Cut(base.Path+path, "?")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound && strings.Contains(path, "/field/") {
		_, err = to.Write([]byte("[]"))
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answered %s: is it a Spoolman server?", base.Redacted(), response.Status)
	}
	n, err := io.Copy(to, io.LimitReader(response.Body, left+1))
	if err != nil {
		return n, fmt.Errorf("%s: %w", base.Redacted(), err)
	}
	if n > left {
		return n, fmt.Errorf("%s sent more than %d MiB", base.Redacted(), maxSource>>20)
	}
	return n, nil
}

// Open opens the source of an import. If the source is an http or https address, Open reads all lists of this server,
// including archived spools, into a temporary file. Otherwise the source is the path of a file.
func Open(ctx context.Context, source string) (*os.File, error) {
	base, remote, err := serverAddress(source)
	if err != nil {
		return nil, err
	}
	if !remote {
		f, err := cli.OpenFile(source)
		if host, port, _ := net.SplitHostPort(source); errors.Is(err, os.ErrNotExist) && host != "" && port != "" {
			err = fmt.Errorf("%w; if it is an address, write http://%s", err, source)
		}
		return f, err
	}
	client, done := newClient()
	defer done()
	f, err := os.CreateTemp("", "spoolwright-import-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	left := int64(maxSource)
	for i, list := range serverLists {
		separator := `,"` + list.name + `":`
		if i == 0 {
			separator = "{" + separator[1:]
		}
		if _, err = f.WriteString(separator); err != nil {
			break
		}
		var n int64
		if n, err = copyList(ctx, client, *base, list.path, f, left); err != nil {
			break
		}
		left -= n
	}
	if err == nil {
		_, err = f.WriteString("}")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
