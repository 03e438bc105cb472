package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/db/local"
)

// OwnTLS is HTTPS with certificates that the program makes itself: an authority, which people install on their devices
// once, and a certificate of the server, which follows the addresses of the machine. Both are in the data folder.
type OwnTLS struct {
	dir        string
	publicHost string // of PUBLIC_URL, or ""
	hosts      func() []string
	now        func() time.Time
	log        *slog.Logger

	mu        sync.Mutex
	authority *tls.Certificate
	server    *tls.Certificate
	seen      []string // addresses of this machine to which clients have connected
	checked   time.Time
}

const (
	authorityFile = "tls-authority.pem" // the certificate and the key
	serverFile    = "tls-server.pem"    // the certificate and the key

	// Devices of Apple reject certificates of servers that are valid for more than 825 days.
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
	clockSkew     = 24 * time.Hour // how far the clocks of devices may be behind

	maxHosts = 64 // bounds the addresses in a certificate
)

// The authority can certify only names and addresses that public authorities do not certify, and those that the
// machine has when the authority is made. So someone who steals its key cannot impersonate another website.
var (
	privateDomains  = []string{"localhost", "local", "lan", "home", "home.arpa", "internal"}
	privateNetworks = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
		"127.0.0.0/8", "::1/128", "fc00::/7"}
)

// NewOwnTLS returns the OwnTLS of TLS_SELF_SIGNED, or nil if that is off. It makes missing certificates.
func NewOwnTLS(c Config) (*OwnTLS, error) {
	if !c.TLSSelfSigned {
		return nil, nil
	}
	o := &OwnTLS{dir: c.DataDir, hosts: func() []string { return machineHosts(c.Listen) }, now: time.Now, log: c.Log}
	if u, err := url.Parse(c.PublicURL); err == nil {
		o.publicHost = normalHost(u.Hostname())
	}
	return o, o.start()
}

func (o *OwnTLS) start() error {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.refresh(); err != nil {
		return fmt.Errorf("TLS_SELF_SIGNED: %w", err)
	}
	return nil
}

// Listener returns a listener for HTTPS. It redirects requests without TLS to HTTPS.
func (o *OwnTLS) Listener(l net.Listener) net.Listener {
	return tls.NewListener(redirecting{l}, &tls.Config{
		GetCertificate: o.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	})
}

// Authority returns the certificate of the authority as PEM.
func (o *OwnTLS) Authority() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.authority.Certificate[0]})
}

// addresses returns the URLs at which other machines can open a service with these hosts that listens on an address.
func addresses(hosts []string, listen string) (urls []string) {
	host, port, _ := net.SplitHostPort(listen)
	only := normalHost(host) // "" if the service listens on all addresses
	for _, host := range hosts {
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.IsLoopback()) && (only == "" || host == only) {
			urls = append(urls, "https://"+net.JoinHostPort(host, port))
		}
	}
	return urls
}

// Announce logs, and prints on a terminal, the addresses at which other machines can open the service, and the
// fingerprint of the authority, so that people can verify what they install. It warns if there are none.
func (o *OwnTLS) Announce(l Listeners, out io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	addresses := addresses(names(o.server.Leaf), l.API.Addr().String())
	if len(addresses) == 0 {
		o.log.Warn("TLS_SELF_SIGNED is on, but LISTEN_ADDR accepts connections only from this machine: remove it, or " +
			"set it to 0.0.0.0:8000, so that other devices can open the service")
	}
	fingerprint := fmt.Sprintf("%X", sha256.Sum256(o.authority.Certificate[0]))
	o.log.Info("serving HTTPS with a certificate of its own; devices install the authority from /farm-ca.crt",
		"addresses", strings.Join(addresses, " "), "sha256", fingerprint)
	if IsTerminal(out) && len(addresses) > 0 {
		fmt.Fprintf(out, "devices:  %s\n          install /farm-ca.crt, SHA-256 %s\n", strings.Join(addresses, " "),
			fingerprint)
	}
}

// get returns the certificate of the server. At most once a minute, and for each new address of the machine, it checks
// whether the certificate must be renewed.
func (o *OwnTLS) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	due := o.now().Sub(o.checked).Abs() >= time.Minute
	// The address to which the client has connected may be missing in the list of the machine's addresses, which a
	// sandbox may hide.
	if host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String()); err == nil {
		if host = normalHost(host); host != "" && len(o.seen) < maxHosts && !slices.Contains(o.seen, host) {
			o.seen, due = append(o.seen, host), true
		}
	}
	if due {
		if err := o.refresh(); err != nil {
			o.log.Warn("cannot renew the certificate of TLS_SELF_SIGNED; keeping the previous one", "error", err)
		}
	}
	return o.server, nil
}

// refresh loads or makes the certificates, and replaces them if that is necessary. After an error, the previous ones
// stay. The caller holds mu.
func (o *OwnTLS) refresh() error {
	o.checked = o.now()
	authority := o.authority
	if authority == nil {
		var err error
		if authority, err = load(filepath.Join(o.dir, authorityFile)); err != nil {
			return err
		}
	}
	switch {
	case authority == nil:
	case authority.Leaf.NotAfter.Sub(o.now()) < serverLife:
		o.log.Warn("the authority of TLS_SELF_SIGNED is about to expire: devices must install the new one")
		authority = nil
	case o.publicHost != "" && !permits(authority.Leaf, o.publicHost):
		o.log.Warn("the authority of TLS_SELF_SIGNED cannot certify the host of PUBLIC_URL: "+
			"devices must install the new one", "host", o.publicHost)
		authority = nil
	}
	hosts := o.wanted()
	if authority == nil {
		var err error
		if authority, err = o.makeAuthority(hosts); err != nil {
			return err
		}
		o.server = nil
	}
	o.authority = authority
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return !permits(authority.Leaf, host) })
	server := o.server
	if server == nil {
		server, _ = load(filepath.Join(o.dir, serverFile)) // a damaged one is replaced
	}
	if server == nil || !o.fits(server.Leaf, hosts) {
		var err error
		if server, err = o.makeServer(hosts); err != nil {
			return err
		}
	}
	o.server = server
	return nil
}

// wanted returns the names and addresses that the certificate needs.
func (o *OwnTLS) wanted() (hosts []string) {
	all := slices.Concat([]string{o.publicHost, "localhost", "127.0.0.1", "::1"}, o.hosts(), o.seen)
	for _, host := range all {
		if host != "" && !slices.Contains(hosts, host) && len(hosts) < maxHosts {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// fits reports whether the certificate is one of the authority, has all hosts, and need not be renewed yet.
func (o *OwnTLS) fits(server *x509.Certificate, hosts []string) bool {
	if server.CheckSignatureFrom(o.authority.Leaf) != nil || server.NotBefore.After(o.now()) ||
		server.NotAfter.Sub(o.now()) < renewBefore {
		return false
	}
	has := names(server)
	return !slices.ContainsFunc(hosts, func(host string) bool { return !slices.Contains(has, host) })
}

func (o *OwnTLS) makeAuthority(hosts []string) (*tls.Certificate, error) {
	name, _ := os.Hostname()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: strings.TrimSpace("Spoolwright " + name)},
		NotBefore: o.now().Add(-clockSkew), NotAfter: o.now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: slices.Clone(privateDomains),
	}
	for _, network := range privateNetworks {
		_, n, err := net.ParseCIDR(network)
		if err != nil {
			return nil, err
		}
		template.PermittedIPRanges = append(template.PermittedIPRanges, n)
	}
	for _, host := range hosts {
		if permits(template, host) {
			continue
		}
		if ip := net.ParseIP(host); ip == nil {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
		} else if four := ip.To4(); four != nil {
			template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: four, Mask: net.CIDRMask(32, 32)})
		} else {
			template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: ip, Mask: net.CIDRMask(128, 128)})
		}
	}
	return issue(filepath.Join(o.dir, authorityFile), template, nil)
}

func (o *OwnTLS) makeServer(hosts []string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Spoolwright"},
		NotBefore: o.now().Add(-clockSkew), NotAfter: o.now().Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return issue(filepath.Join(o.dir, serverFile), template, o.authority)
}

// issue makes a certificate with a new key, signed by the parent or, without one, by itself, and stores it.
func issue(path string, template *x509.Certificate, parent *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	if err := local.WritePrivate(path, text); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	return &pair, err
}

// load returns the certificate and the key in a file, or nil if the file does not exist.
func load(path string) (*tls.Certificate, error) {
	text, err := local.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: remove it (devices must then install the new authority): %w", path, err)
	}
	return &pair, nil
}

// permits reports whether the authority can certify the host.
func permits(authority *x509.Certificate, host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return slices.ContainsFunc(authority.PermittedIPRanges, func(n *net.IPNet) bool { return n.Contains(ip) })
	}
	return slices.ContainsFunc(authority.PermittedDNSDomains, func(domain string) bool {
		return host == domain || strings.HasSuffix(host, "."+domain)
	})
}

// names returns the names and addresses of a certificate.
func names(c *x509.Certificate) []string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, normalHost(ip.String()))
	}
	return all
}

// machineHosts returns the names and addresses of the machine, and the host of the address to listen on.
func machineHosts(listen string) []string {
	host, _, _ := net.SplitHostPort(listen)
	hosts := []string{normalHost(host)}
	if name, err := os.Hostname(); err == nil {
		if name = normalHost(name); name != "" {
			hosts = append(hosts, name)
			if !strings.Contains(name, ".") {
				hosts = append(hosts, name+".local") // its name in mDNS
			}
		}
	}
	addresses, _ := net.InterfaceAddrs() // a sandbox may hide them: see OwnTLS.get
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok {
			hosts = append(hosts, normalHost(n.IP.String()))
		}
	}
	return hosts
}

// normalHost returns a host name in lower case, or an address in its shortest form. It returns "" for a name that
// cannot be in a certificate or that browsers cannot open.
func normalHost(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		address = address.Unmap()
		if address.IsUnspecified() || address.IsMulticast() || address.Is6() && address.IsLinkLocalUnicast() {
			return ""
		}
		return address.WithZone("").String()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return ""
		}
	}
	return host
}

// redirecting redirects HTTP on its connections to HTTPS, because browsers open an address without a scheme with HTTP.
type redirecting struct{ net.Listener }

func (l redirecting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &redirectingConn{Conn: conn}, nil
}

type redirectingConn struct {
	net.Conn
	begun bool
}

// maxRedirected bounds a request without TLS, in bytes.
const maxRedirected = 8 << 10

// Read answers a request without TLS, and then reports the end of the connection. The reader is TLS.
func (c *redirectingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.begun || n == 0 {
		return n, err
	}
	c.begun = true
	if b[0] < 'A' || b[0] > 'Z' { // the first byte of TLS is 22; a request begins with its method
		return n, err
	}
	rest := io.LimitReader(c.Conn, maxRedirected)
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(slices.Clone(b[:n])), rest)))
	if err != nil {
		return 0, io.EOF
	}
	answer := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nUse https://\n"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		to := &url.URL{Scheme: "https", Host: cmp.Or(r.Host, c.LocalAddr().String()), Path: r.URL.Path,
			RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		answer = "HTTP/1.1 307 Temporary Redirect\r\nLocation: " + to.String() +
			"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	}
	io.WriteString(c.Conn, answer)
	return 0, io.EOF
}
