// Package mail sends e-mails to people by the SMTP server of the operator.
package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/netip"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"spoolwright/value"
	"spoolwright/value/language"
)

// Server is an SMTP server that takes e-mails, and the account there.
type Server struct {
	host, port     string
	tls            bool // from the first byte; otherwise STARTTLS
	loopback       bool // TLS is not required
	user, password string
}

// ParseURL returns the server of a URL: smtps://user:password@host:465, or smtp://host:587, which requires STARTTLS
// unless the host is this machine. Errors do not contain the password.
func ParseURL(text string) (Server, error) {
	errURL := errors.New("not a URL such as smtps://user:password@smtp.example:465 or smtp://smtp.example:587; in the " +
		"user and the password, percent-encode special characters")
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return Server{}, errURL
	}
	s := Server{host: u.Hostname(), port: u.Port(), tls: u.Scheme == "smtps"}
	if s.port == "" && s.tls {
		s.port = "465"
	} else if s.port == "" {
		s.port = "587"
	}
	if n, err := strconv.ParseUint(s.port, 10, 16); err != nil || n == 0 {
		return Server{}, errURL
	}
	addr, err := netip.ParseAddr(s.host)
	s.loopback = err == nil && addr.Unmap().IsLoopback() || s.host == "localhost"
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
		if s.user == "" || strings.ContainsAny(s.user+s.password, "\x00\r\n") {
			return Server{}, errURL
		}
	}
	return s, nil
}

// ParseFrom returns the sender of e-mails, such as Farm <farm@example.com>.
func ParseFrom(text string) (mail.Address, error) {
	a, err := mail.ParseAddress(text)
	if err != nil || !isAddress(a.Address) {
		return mail.Address{}, fmt.Errorf("%q is not an address such as Farm <farm@example.com>", text)
	}
	return *a, nil
}

// isAddress reports whether the text is a plain address, which a command of SMTP can contain.
func isAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Name == "" && a.Address == text && len(text) <= 320 &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '<' || r == '>' || r == 0x7f })
}

// CheckAddress returns an error unless the text is a plain address such as ada@farm.example.
func CheckAddress(text string) error {
	if !isAddress(text) {
		return errors.New("must be an address such as ada@farm.example")
	}
	return nil
}

// Message is an e-mail of plain text.
type Message struct {
	To, Subject, Text string
	ID                string // of letters and digits, the same in each try to send the e-mail; "" for a random one
}

// Sender sends e-mails. It is safe for concurrent use.
type Sender struct {
	server Server
	from   mail.Address
	roots  *x509.CertPool
	now    func() time.Time

	mu    sync.Mutex
	since time.Time      // start of the hour that sent counts
	sent  map[string]int // by recipient
}

// New returns a Sender. The argument roots are the certificates of authorities; nil means those of the system.
func New(server Server, from mail.Address, roots *x509.CertPool) *Sender {
	return &Sender{server: server, from: from, roots: roots, now: time.Now, sent: map[string]int{}}
}

const (
	maxPerHour = 30 // e-mails to one address
	maxCounted = 100_000
	timeout    = 15 * time.Second
	maxSubject = 200 // in characters
)

// Error is the reason why an e-mail was not sent.
type Error struct {
	Code      int // the response of the server, or 0 if there is none
	Reason    string
	Permanent bool          // the server refuses the recipient or the e-mail: another try would fail, too
	Again     time.Duration // too many e-mails were sent to the address; there is room after this time
}

func (e *Error) Error() string { return e.Reason }

// admit counts an e-mail to the address.
func (s *Sender) admit(to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.since) >= time.Hour || len(s.sent) >= maxCounted {
		s.since = now
		clear(s.sent)
	}
	to = strings.ToLower(to)
	if s.sent[to] >= maxPerHour {
		return &Error{Reason: language.Sprintf("an address gets at most %d e-mails in an hour", maxPerHour),
			Again: time.Hour - now.Sub(s.since)}
	}
	s.sent[to]++
	return nil
}

// Send sends an e-mail, which the server accepts or not within 15 seconds. The error is an *Error.
func (s *Sender) Send(ctx context.Context, m Message) error {
	if !isAddress(m.To) {
		return &Error{Reason: language.Sprintf("the address of the recipient is not valid"), Permanent: true}
	}
	if err := s.admit(m.To); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := s.send(ctx, m)
	var reply *textproto.Error
	var failed *Error
	var refused *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return failed
	case errors.As(err, &reply):
		return &Error{Code: reply.Code, Reason: printable(language.Sprintf("the mail server answered %s", reply)),
			Permanent: errors.As(err, &refused) && reply.Code >= 500}
	case ctx.Err() != nil:
		return &Error{Reason: language.Sprintf("the mail server did not answer in time")}
	}
	return &Error{Reason: printable(language.Sprintf("no e-mail can be sent: %s", err))}
}

// printable returns at most 300 bytes of a text, as text that PostgreSQL accepts.
func printable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), 300)], ""), "\x00", "")
}

func (s *Sender) send(ctx context.Context, m Message) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.server.host, RootCAs: s.roots}
	dialer := net.Dialer{}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.server.host, s.server.port))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if s.server.tls {
		conn = tls.Client(conn, config)
	}
	// A server could send lines without end.
	c, err := smtp.NewClient(limited{conn, &io.LimitedReader{R: conn, N: 64 << 10}}, s.server.host)
	if err != nil {
		return err
	}
	_, domain, _ := strings.Cut(s.from.Address, "@")
	if err := c.Hello(domain); err != nil {
		return err
	}
	if !s.server.tls {
		if ok, _ := c.Extension("STARTTLS"); ok {
			if err := c.StartTLS(config); err != nil {
				return err
			}
		} else if !s.server.loopback {
			return &Error{Reason: language.Sprintf("the mail server does not offer STARTTLS")}
		}
	}
	if s.server.user != "" {
		if err := c.Auth(account{s.server}); err != nil {
			return err
		}
	}
	if err := c.Mail(s.from.Address); err != nil {
		return err
	}
	if err := c.Rcpt(m.To); err != nil {
		return &refusal{err}
	}
	w, err := c.Data()
	if err != nil {
		return &refusal{err}
	}
	if _, err := w.Write(s.compose(m)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return &refusal{err}
	}
	c.Quit() // the server has the e-mail
	return nil
}

// refusal is an error of a command that sends the recipient or the e-mail. Errors of earlier commands, such as the
// login, do not depend on the e-mail: the operator can fix their cause.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// limited is a connection that reads a limited number of bytes.
type limited struct {
	net.Conn
	r *io.LimitedReader
}

func (l limited) Read(b []byte) (int, error) { return l.r.Read(b) }

// account logs in with PLAIN or, if the server supports only that, with LOGIN.
type account struct{ Server }

func (a account) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS && !a.loopback && !a.tls {
		return "", nil, errors.New("the connection is not encrypted")
	}
	for _, way := range server.Auth {
		if way == "PLAIN" {
			return "PLAIN", []byte("\x00" + a.user + "\x00" + a.password), nil
		}
	}
	return "LOGIN", nil, nil
}

func (a account) Next(prompt []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	switch strings.ToLower(strings.TrimRight(string(prompt), ": ")) {
	case "username", "user name":
		return []byte(a.user), nil
	case "password":
		return []byte(a.password), nil
	}
	return nil, errors.New("the mail server asks for something else than user and password")
}

// compose returns the header and the body of an e-mail. No header field has a line break of its arguments, and no line
// is longer than SMTP allows.
func (s *Sender) compose(m Message) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(s.from.Address, "@")
	to := mail.Address{Address: m.To}
	id := m.ID
	if id == "" {
		id = rand.Text()
	}
	for _, field := range [][2]string{
		{"From", s.from.String()}, {"To", to.String()}, {"Subject", subject(m.Subject)},
		{"Date", s.now().UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700")},
		{"Message-ID", "<" + id + "@" + domain + ">"},
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
		{"Auto-Submitted", "auto-generated"}, // stops automatic replies
	} {
		b.WriteString(field[0] + ": " + field[1] + "\r\n")
	}
	b.WriteString("\r\n")
	body := quotedprintable.NewWriter(&b)
	body.Write([]byte(strings.ToValidUTF8(m.Text, ""))) // a buffer returns no errors
	body.Close()
	return b.Bytes()
}

// subject returns a subject as the text of a header field.
func subject(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = mime.QEncoding.Encode("utf-8", value.Shorten(text, maxSubject-1))
	return strings.ReplaceAll(text, "?= =?", "?=\r\n =?")
}
