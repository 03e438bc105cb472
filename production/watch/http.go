package watch

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"spoolwright/value/language"
	"strings"
	"syscall"
	"time"
)

// Bounds of requests to printers.
const (
	answerWithin = 10 * time.Second
	maxMessage   = 4 << 20 // bytes of an answer or a message
)

// How often printers are polled that have no push.
const (
	pollPrinting = 5 * time.Second
	pollIdle     = 10 * time.Second
)

// Problem is why a printer cannot be watched, in words for a person. It never contains a secret.
type Problem struct {
	Code        string // off, network, name, port, key, kind, certificate, protocol, busy, invalid or stale
	Text        string
	Fingerprint string // of a certificate that is not the one of the connection
	Field       string // of a connection that is invalid; Text goes on after its name
}

func (p *Problem) Error() string { return strings.TrimSpace(p.Field + " " + p.Text) }

// answers reports whether something answered at the address, so that the printer is not simply off.
func (p *Problem) answers() bool {
	return p.Code == "key" || p.Code == "kind" || p.Code == "certificate" || p.Code == "invalid"
}

// problem returns a Problem with a text that is formatted with the arguments.
func problem(code string, text language.Text, args ...any) *Problem {
	return &Problem{Code: code, Text: language.English.Text(text, args...)}
}

// invalid returns a Problem with a field of a connection.
func invalid(field string, text language.Text) *Problem {
	return &Problem{Code: "invalid", Field: field, Text: string(text)}
}

// problemOf puts a network error into words.
func problemOf(err error, address string) *Problem {
	var p *Problem
	var name *net.DNSError
	var timeout net.Error
	var request *url.Error // its text has the URL
	if errors.As(err, &request) {
		err = request.Err
	}
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &name):
		return problem("name", "No device in this network has the name %s.", cut(name.Name, 100))
	case errors.Is(err, syscall.ECONNREFUSED):
		return problem("port", "The device at %s is on, but nothing answers at this port.", address)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return problem("network", "No device has the address %s in this network, or it is off.", address)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return problem("off", "Nothing answers at %s: the printer is off, asleep or not in this network.", address)
	}
	return problem("protocol", "The connection to %s failed: %s.", address, cut(err.Error(), 200))
}

// site is the HTTP server of a printer.
type site struct {
	Connection
	base    string // without a slash at the end
	address string // host:port
	client  *http.Client
	digest  map[string]string // the last challenge, see digestOf
	count   int               // of requests with its nonce
}

// addressOf reads an address that is a URL, host or host:port. Its host has a port.
func addressOf(text, port string) (*url.URL, error) {
	if text = strings.TrimSpace(text); strings.Count(text, ":") > 1 && net.ParseIP(text) != nil {
		text = "[" + text + "]"
	}
	rest, secure := strings.CutPrefix(text, "https://")
	rest, plain := strings.CutPrefix(rest, "http://")
	if secure {
		port = "443"
	} else if plain {
		port = "80"
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`<>"\^{|}@?#`, r) }
	u, err := url.Parse("http://" + rest)
	if err != nil || u.Hostname() == "" || len(text) > 300 || strings.ContainsFunc(rest, odd) ||
		strings.Contains(rest, "://") || secure && plain {
		return nil, invalid("address", "must be an address such as http://192.168.1.20:7125, without a user or a query")
	}
	if secure {
		u.Scheme = "https"
	}
	if u.Port() == "" {
		u.Host += ":" + port
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// newSite returns the server at the address.
func newSite(c Connection, dial Dial, port string) (*site, error) {
	u, err := addressOf(c.Address, port)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: dial, MaxConnsPerHost: 2, MaxIdleConnsPerHost: 1,
		IdleConnTimeout: time.Minute, ResponseHeaderTimeout: answerWithin, TLSHandshakeTimeout: answerWithin,
		ReadBufferSize: 2 << 10, WriteBufferSize: 1 << 10, MaxResponseHeaderBytes: 64 << 10}
	// The key must not follow a redirect to another host.
	client := &http.Client{Transport: transport, Timeout: answerWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &site{Connection: c, base: u.String(), address: u.Host, client: client}, nil
}

// get reads the JSON at the path into v, and returns the status: 200, 204, 404 or 409, which a kind interprets.
func (s *site) get(ctx context.Context, path string, v any) (int, error) {
	for try := 0; ; try++ {
		r, err := http.NewRequestWithContext(ctx, "GET", s.base+path, nil)
		if err != nil {
			return 0, invalid("address", "is not valid")
		}
		r.Header.Set("Accept", "application/json")
		if s.digest != nil {
			r.Header.Set("Authorization", s.digestOf("GET", r.URL.RequestURI()))
		} else if s.Secret != "" && !(s.Kind == "prusalink" && strings.Contains(s.Secret, ":")) {
			r.Header.Set("X-Api-Key", s.Secret)
		}
		a, err := s.client.Do(r)
		if err != nil {
			return 0, problemOf(err, s.address)
		}
		body, err := io.ReadAll(io.LimitReader(a.Body, maxMessage+1))
		a.Body.Close()
		challenge := a.Header.Get("WWW-Authenticate")
		switch {
		case err != nil:
			return 0, problemOf(err, s.address)
		case a.StatusCode == 401 && try == 0 && s.Secret != "" && s.challenge(challenge):
			continue
		case a.StatusCode == 401 || a.StatusCode == 403:
			s.digest = nil
			return 0, problem("key", "The printer refuses the key: no such key, or a wrong one.")
		case a.StatusCode >= 300 && a.StatusCode < 400:
			return 0, problem("kind", "The address answers with a redirect. Enter the address that it leads to.")
		case a.StatusCode == 503 || a.StatusCode == 429:
			return 0, problem("busy", "The printer is too busy to answer.")
		case a.StatusCode >= 500:
			return 0, problem("protocol", "The printer answers with the error %d.", a.StatusCode)
		case a.StatusCode == 204 || a.StatusCode == 404 || a.StatusCode == 409:
			return a.StatusCode, nil
		case a.StatusCode != 200 || len(body) > maxMessage || json.Unmarshal(body, v) != nil:
			return 0, problem("kind", "What answers at %s is not %s.", s.address, s.Kind)
		}
		return 200, nil
	}
}

var challengeField = regexp.MustCompile(`(\w+)=(?:"([^"]*)"|([^\s,]+))`)

// challenge keeps the challenge of digest authentication (RFC 7616), and reports whether it is one that is new: the
// same one again means that the password is wrong.
func (s *site) challenge(header string) bool {
	method, rest, _ := strings.Cut(header, " ")
	if !strings.EqualFold(method, "Digest") {
		return false
	}
	fields := map[string]string{}
	for _, m := range challengeField.FindAllStringSubmatch(rest, 32) {
		fields[strings.ToLower(m[1])] = m[2] + m[3]
	}
	s.digest, s.count = fields, 0
	return fields["nonce"] != ""
}

// digestOf returns the header Authorization. Buddy firmware uses MD5 without qop (RFC 2069), PrusaLink on a Raspberry
// Pi MD5-sess with qop=auth.
func (s *site) digestOf(method, uri string) string {
	user, password, found := strings.Cut(s.Secret, ":")
	if !found {
		user, password = "maker", s.Secret
	}
	c := s.digest
	hash := func(parts ...string) string {
		sum := md5.Sum([]byte(strings.Join(parts, ":")))
		return hex.EncodeToString(sum[:])
	}
	var random [8]byte
	rand.Read(random[:])
	cnonce := hex.EncodeToString(random[:])
	s.count++
	count := fmt.Sprintf("%08x", s.count)
	a1, a2 := hash(user, c["realm"], password), hash(method, uri)
	if strings.EqualFold(c["algorithm"], "MD5-sess") {
		a1 = hash(a1, c["nonce"], cnonce)
	}
	header := fmt.Sprintf(`Digest username="%s", realm="%s", nonce="%s", uri="%s"`,
		strings.ReplaceAll(user, `"`, ""), c["realm"], c["nonce"], uri)
	for _, name := range []string{"algorithm", "opaque"} {
		if c[name] != "" {
			header += fmt.Sprintf(`, %s="%s"`, name, c[name])
		}
	}
	if !strings.Contains(c["qop"], "auth") {
		return header + fmt.Sprintf(`, response="%s"`, hash(a1, c["nonce"], a2))
	}
	return header + fmt.Sprintf(`, qop=auth, nc=%s, cnonce="%s", response="%s"`, count, cnonce,
		hash(a1, c["nonce"], count, cnonce, "auth", a2))
}

// poll calls look until it fails, and waits between the calls: longer while the printer has no job.
func poll(ctx context.Context, look func(context.Context) (Observation, error), yield func(Observation)) error {
	for {
		o, err := look(ctx)
		if err != nil {
			return err
		}
		yield(o)
		wait := pollIdle
		if o.Phase == Runs || o.Phase == Keep {
			wait = pollPrinting
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
