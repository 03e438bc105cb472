package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ownFarm is an OwnTLS whose clock and addresses the test sets.
type ownFarm struct {
	*OwnTLS
	clock time.Time
	names []string
	text  bytes.Buffer // the log
}

func newOwnFarm(t *testing.T, dir, publicHost string) *ownFarm {
	t.Helper()
	f := &ownFarm{clock: time.Now(),
		names: []string{"workshop", "workshop.local", "192.168.1.20", "203.0.113.5", "fd00::20"}}
	f.OwnTLS = &OwnTLS{dir: dir, publicHost: publicHost, hosts: func() []string { return f.names },
		now: func() time.Time { return f.clock }, log: slog.New(slog.NewTextHandler(&f.text, nil))}
	if err := f.start(); err != nil {
		t.Fatal(err)
	}
	return f
}

// roots returns what a device has that installed the authority.
func (f *ownFarm) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(f.Authority()) {
		t.Fatal("the authority is no certificate")
	}
	return pool
}

// hello is a connection of a client to an address of the machine.
func hello(address string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{Conn: addressed{addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 8000}}}
}

type addressed struct {
	net.Conn
	addr net.Addr
}

func (a addressed) LocalAddr() net.Addr { return a.addr }

// served returns the certificate that a client gets that connects to 127.0.0.1.
func (f *ownFarm) served(t *testing.T) *x509.Certificate {
	t.Helper()
	c, err := f.get(hello("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

// trusts returns the error of a device at the time of the farm that opens a host.
func (f *ownFarm) trusts(t *testing.T, roots *x509.CertPool, host string) error {
	t.Helper()
	_, err := f.served(t).Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: f.clock,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

// A device that has installed the authority trusts each name and address of the machine, and nothing else.
func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f := newOwnFarm(t, dir, "farm.example")
	roots := f.roots(t)
	for _, host := range []string{"farm.example", "localhost", "127.0.0.1", "::1", "workshop", "workshop.local",
		"192.168.1.20", "203.0.113.5", "fd00::20"} {
		if err := f.trusts(t, roots, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"bank.example", "192.168.1.21", "8.8.8.8"} {
		if f.trusts(t, roots, host) == nil {
			t.Errorf("%s is trusted", host)
		}
	}
	if f.trusts(t, x509.NewCertPool(), "localhost") == nil {
		t.Error("a device without the authority trusts the farm")
	}
	for _, name := range []string{authorityFile, serverFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	leaf := f.served(t)
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life > 825*24*time.Hour || leaf.IsCA {
		t.Errorf("devices of Apple reject the certificate: %v, %v", life, leaf.IsCA)
	}

	// A thief of the key of the authority cannot pretend to be another website.
	for _, host := range []string{"bank.example", "example", "8.8.8.8", "2001:db8::1"} {
		forger := &OwnTLS{dir: t.TempDir(), authority: f.authority, now: f.now}
		forged, err := forger.makeServer([]string{host})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := forged.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err == nil {
			t.Errorf("a certificate for %s is trusted", host)
		}
	}

	// The certificates stay after a restart, with fewer addresses, too.
	first := f.served(t).Raw
	again := newOwnFarm(t, dir, "farm.example")
	again.names = nil
	if !bytes.Equal(again.served(t).Raw, first) || !bytes.Equal(again.Authority(), f.Authority()) {
		t.Error("a restart makes new certificates")
	}

	// Another host of PUBLIC_URL needs another authority, unless the authority permits it.
	if inside := newOwnFarm(t, dir, "shop.farm.example"); !bytes.Equal(inside.Authority(), f.Authority()) ||
		inside.trusts(t, roots, "shop.farm.example") != nil || inside.text.Len() > 0 {
		t.Errorf("a host that the authority permits: %s", &inside.text)
	}
	other := newOwnFarm(t, dir, "other.example")
	if bytes.Equal(other.Authority(), f.Authority()) || other.trusts(t, other.roots(t), "other.example") != nil ||
		!strings.Contains(other.text.String(), "devices must install the new one") {
		t.Errorf("another host of PUBLIC_URL: %s", &other.text)
	}
}

// The log names the addresses that other machines can reach, and warns if there are none.
func TestAddressesOfOwnTLS(t *testing.T) {
	t.Parallel()
	f := newOwnFarm(t, t.TempDir(), "")
	hosts := names(f.server.Leaf)
	for listen, want := range map[string][]string{
		"[::]:8000": {"https://workshop:8000", "https://workshop.local:8000", "https://192.168.1.20:8000",
			"https://203.0.113.5:8000", "https://[fd00::20]:8000"},
		"192.168.1.20:8443": {"https://192.168.1.20:8443"}, "[fd00::20]:8000": {"https://[fd00::20]:8000"},
		"127.0.0.1:8000": nil, "[::1]:8000": nil,
	} {
		if got := addresses(hosts, listen); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
	}
	for listen, word := range map[string]string{"127.0.0.1:0": "only from this machine", ":0": "https://workshop:"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		f.text.Reset()
		f.Announce(Listeners{API: l}, io.Discard)
		l.Close()
		if !strings.Contains(f.text.String(), word) {
			t.Errorf("%s: the log has %q", listen, f.text.String())
		}
	}
}

// The certificate is renewed before its end and for a new address, without a restart, and devices do not notice.
func TestOwnCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	f := newOwnFarm(t, t.TempDir(), "")
	roots, first := f.roots(t), f.served(t)
	renewed := func(after string, want bool) {
		t.Helper()
		if is := !bytes.Equal(f.served(t).Raw, first.Raw); is != want {
			t.Errorf("%s: renewed is %v, want %v", after, is, want)
		}
		first = f.served(t)
		for _, host := range []string{"localhost", "workshop.local"} {
			if err := f.trusts(t, roots, host); err != nil {
				t.Errorf("%s: %s: %v", after, host, err)
			}
		}
	}
	renewed("at once", false)
	f.clock = first.NotAfter.Add(-renewBefore - time.Hour)
	renewed("a day before", false)
	f.clock = first.NotAfter.Add(-renewBefore + time.Hour)
	renewed("30 days before the end", true)

	f.names = append(f.names, "192.168.1.77")
	f.clock = f.clock.Add(time.Hour)
	renewed("with a new address", true)
	f.names = append(f.names, "198.51.100.7", "late.example")
	f.clock = f.clock.Add(time.Hour)
	renewed("with hosts that the authority does not permit", false)
	if _, err := f.get(hello("10.0.0.9")); err != nil {
		t.Fatal(err)
	}
	renewed("after a connection to an address that the machine hides", true)
	if !slices.Contains(names(first), "10.0.0.9") || !slices.Contains(names(first), "192.168.1.77") {
		t.Errorf("the certificate is for %v", names(first))
	}

	// What cannot be stored is used from memory no longer than necessary, and the log says why.
	if err := os.Mkdir(filepath.Join(f.dir, serverFile+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, serverFile+".new", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.clock = first.NotAfter.Add(-time.Hour)
	renewed("without a place for it", false)
	if !strings.Contains(f.text.String(), "cannot renew the certificate") {
		t.Errorf("the log is %s", &f.text)
	}

	// The authority is replaced before its end.
	if err := os.RemoveAll(filepath.Join(f.dir, serverFile+".new")); err != nil {
		t.Fatal(err)
	}
	f.clock = f.authority.Leaf.NotAfter.Add(-serverLife + time.Hour)
	if f.served(t); f.trusts(t, f.roots(t), "localhost") != nil || f.trusts(t, roots, "localhost") == nil {
		t.Error("the authority is not replaced")
	}
}

// A damaged or readable file of the authority stops the start; a damaged certificate is made again.
func TestOwnFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newOwnFarm(t, dir, "")
	path := filepath.Join(dir, authorityFile)
	start := func() error {
		return (&OwnTLS{dir: dir, hosts: f.hosts, now: f.now, log: f.log}).start()
	}
	if err := os.WriteFile(filepath.Join(dir, serverFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := start(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f.Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(); err == nil || !strings.HasPrefix(err.Error(), "TLS_SELF_SIGNED: "+path+" is damaged: remove it") {
		t.Errorf("an authority without a key: %v", err)
	}
}

// A real client opens the service over HTTPS, and is redirected there from HTTP.
func TestOwnListener(t *testing.T) {
	t.Parallel()
	f := newOwnFarm(t, t.TempDir(), "")
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto+" "+r.URL.String())
	}))
	s.Listener.Close()
	s.Listener = f.Listener(raw)
	s.Start()
	t.Cleanup(s.Close)
	address := raw.Addr().String()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots(t)}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	for _, scheme := range []string{"https", "http"} {
		answer, err := client.Get(scheme + "://" + address + "/s/12?a=%20b")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || !strings.HasSuffix(string(body), " /s/12?a=%20b") ||
			answer.Request.URL.Scheme != "https" {
			t.Errorf("%s: %s, %v", scheme, body, err)
		}
	}

	// A body is not sent again over HTTPS, and what is neither TLS nor HTTP ends the connection.
	answer, err := client.Post("http://"+address+"/api/v1/auth/login", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != 400 {
		t.Errorf("a POST over HTTP: status %d", answer.StatusCode)
	}
	for _, request := range []string{"hello\r\n\r\n", "NONSENSE\r\n\r\n", "GET " + strings.Repeat("x", 2*maxRedirected)} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(3 * time.Minute))
		io.WriteString(conn, request)
		if b, err := io.ReadAll(conn); strings.Contains(string(b), "HTTP/1.1 2") || os.IsTimeout(err) {
			t.Errorf("%.20s: %s, %v", request, b, err)
		}
		conn.Close()
	}
	for _, host := range []string{"evil\"\r\nX: y", ""} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(3 * time.Minute))
		io.WriteString(conn, "GET /a%0d%0aX:%20y HTTP/1.0\r\nHost: "+host+"\r\n\r\n")
		b, _ := io.ReadAll(conn)
		if head, _, _ := strings.Cut(string(b), "\r\n\r\n"); strings.Contains(head, "\nX: y") {
			t.Errorf("the request writes headers: %s", b)
		}
		conn.Close()
	}
}

// What people give as a host becomes a name of a certificate, or nothing.
func TestHostsOfTheMachine(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"Workshop.": "workshop", "192.168.1.20": "192.168.1.20",
		"::ffff:10.0.0.1": "10.0.0.1", "FD00::0020": "fd00::20", "fe80::1%eth0": "", "0.0.0.0": "", "::": "",
		"224.0.0.1": "", "a b": "", "a..b": "", "": "", "müller": "", "*.example": ""} {
		if got := normalHost(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	hosts := machineHosts("192.0.2.7:8000")
	if hosts[0] != "192.0.2.7" || !slices.Contains(hosts, "127.0.0.1") {
		t.Errorf("the hosts are %v", hosts)
	}
	if block, _ := pem.Decode(newOwnFarm(t, t.TempDir(), "").Authority()); block.Type != "CERTIFICATE" {
		t.Errorf("the authority is a %s", block.Type)
	}
}
