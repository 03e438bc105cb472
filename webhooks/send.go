package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spoolwright/value"
	"spoolwright/value/language"
)

const (
	tryTimeout    = 15 * time.Second
	maxRead       = 4 << 10 // bytes of a response that are read
	maxStored     = 1 << 10 // bytes of a response that are stored
	maxRetryAfter = 24 * time.Hour
)

// sender sends requests to receivers.
type sender struct {
	secure, plain *http.Client // for https and http
	agent         string
	site          string // the address of the farm, with which links begin, or ""
}

// outcome is the result of a try.
type outcome struct {
	began      time.Time
	took       time.Duration
	code       int           // the status of the response, or the code of the mail server; 0 without one
	response   string        // its first bytes, as valid text
	err        string        // why there is no response; "" with a response
	retryAfter time.Duration // the pause that the receiver asked for
	permanent  bool          // another try would also fail
}

func (o outcome) ok() bool { return o.code >= 200 && o.code <= 299 }

// ErrAddress means that a host has an address that is not allowed.
var ErrAddress = errors.New("the address is not public")

// NewDialer returns a dialer for connections to the servers of others. It connects only to public addresses, and to
// none if tls is false, except in the allowed networks.
func NewDialer(c Config, tls bool) *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Resolver: c.Resolver,
		// Control gets the address of each connection after the host name was resolved, so that a later answer of
		// the DNS cannot replace the address.
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !isAllowed(to.Addr(), tls, c.AllowedNetworks) {
				return ErrAddress
			}
			return nil
		}}
}

// NewClient returns a client for requests to the servers of others: for https if tls is true, otherwise for http. It
// connects as NewDialer does, and follows no redirect.
func NewClient(c Config, tls bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would connect to an unchecked address
			DialContext:            NewDialer(c, tls).DialContext,
			TLSClientConfig:        tlsConfig(c),
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConns:           256,
			MaxIdleConnsPerHost:    256,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 16 << 10,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newSender(c Config) *sender {
	agent := "Spoolwright"
	if c.Version != "" {
		agent += "/" + c.Version
	}
	return &sender{secure: NewClient(c, true), plain: NewClient(c, false), agent: agent, site: c.PublicURL}
}

func tlsConfig(c Config) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots}
}

// send sends a request. The request ends when ctx ends.
func (s *sender) send(ctx context.Context, to receiver, id string, body []byte) (o outcome) {
	o.began = time.Now()
	defer func() { o.took = time.Since(o.began) }()
	d := delivery{to: to, id: id, began: o.began, body: body}
	if to.format != Standard {
		d.message = newMessage(body, s.site, to)
	}
	made := formats[to.format].request(d)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, made.url, bytes.NewReader(made.body))
	if err != nil {
		o.err = language.Sprintf("the URL is not valid")
		return o
	}
	r.Header = made.header
	r.Header.Set("User-Agent", s.agent)
	client := s.secure
	if r.URL.Scheme != "https" {
		client = s.plain
	}
	response, err := client.Do(r)
	if err != nil {
		o.err = describe(err)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // err can be that of the closed connection
			o.err = language.Sprintf(noResponse)
		}
		return o
	}
	defer response.Body.Close()
	o.code = response.StatusCode
	// The body of a 101 response is the connection, and the end of the context does not end reads from it.
	if o.code != http.StatusSwitchingProtocols {
		// The status decides; an error while the body is read does not matter.
		read, _ := io.ReadAll(io.LimitReader(response.Body, maxRead))
		o.response = printable(read)
	}
	o.retryAfter = retryAfter(response.Header.Get("Retry-After"), o.began)
	return o
}

// printable returns at most the first maxStored bytes of a response, as text that PostgreSQL accepts.
func printable(b []byte) string {
	text := strings.ToValidUTF8(string(b[:min(len(b), maxStored)]), "")
	return strings.ReplaceAll(text, "\x00", "")
}

// retryAfter returns the pause that the header Retry-After asks for, or 0. It limits numbers beyond 64 bits to the
// maximum.
func retryAfter(header string, now time.Time) time.Duration {
	var pause time.Duration
	if seconds, err := strconv.ParseInt(header, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		pause = time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		pause = at.Sub(now)
	}
	return min(max(pause, 0), maxRetryAfter)
}

const noResponse language.Text = "no response in time"

// describe returns the reason of a failed request for users. The reason contains no address, because an address would
// reveal how names resolve in the network of the service.
func describe(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var failed *url.Error
	var network *net.OpError
	switch {
	case errors.Is(err, ErrAddress):
		return language.Sprintf("the host has an address that is not public")
	case errors.As(err, &dns):
		return language.Sprintf("the host name could not be resolved")
	case errors.As(err, &certificate):
		return value.Shorten(language.Sprintf("the certificate is not valid: %s", certificate.Err), 300)
	case errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return language.Sprintf("the TLS handshake failed")
	case errors.As(err, &failed) && failed.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return language.Sprintf(noResponse)
	case errors.Is(err, syscall.ECONNREFUSED):
		return language.Sprintf("the connection was refused")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return language.Sprintf("the host is unreachable")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.As(err, &network), errors.Is(err, net.ErrClosed),
		strings.Contains(err.Error(), "closed idle connection"):
		return language.Sprintf("the connection was closed before a response")
	}
	return language.Sprintf("the response is not valid HTTP")
}
