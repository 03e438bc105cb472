package testkit

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
)

// SMTPPassword is the password that servers of ServeSMTP accept.
const SMTPPassword = "p@ss/word"

// SMTP is a small server that records e-mails.
type SMTP struct {
	Address string // host and port
	Roots   *x509.CertPool
	Got     chan Email
}

// Email is an e-mail that an SMTP server got, as the commands and the data say.
type Email struct{ From, To, Data, User, Password string }

// SMTPOptions say how a server behaves.
type SMTPOptions struct {
	TLS, StartTLS bool              // TLS from the first byte, or after STARTTLS
	Auth          string            // PLAIN or LOGIN, or "" for none
	Refuse        map[string]string // the response to a command, by its first word
}

// ServeSMTP starts a server on a loopback address.
func ServeSMTP(t *testing.T, o SMTPOptions) *SMTP {
	t.Helper()
	https := httptest.NewUnstartedServer(nil)
	https.StartTLS()
	config := https.TLS.Clone()
	s := &SMTP{Roots: x509.NewCertPool(), Got: make(chan Email, 100)}
	s.Roots.AddCert(https.Certificate())
	https.Close()
	config.NextProtos = nil
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Check(t, err)
	t.Cleanup(func() { l.Close() })
	s.Address = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.session(c, config, o)
		}
	}()
	return s
}

func (s *SMTP) session(c net.Conn, config *tls.Config, o SMTPOptions) {
	defer func() { c.Close() }()
	secure := o.TLS
	if o.TLS {
		c = tls.Server(c, config)
	}
	r := bufio.NewReader(c)
	say := func(format string, args ...any) { fmt.Fprintf(c, format+"\r\n", args...) }
	read := func() string { line, _ := r.ReadString('\n'); return strings.TrimRight(line, "\r\n") }
	var e Email
	say("220 test ESMTP")
	for {
		line := read()
		verb, rest, _ := strings.Cut(line, " ")
		if answer := o.Refuse[strings.ToUpper(verb)]; answer != "" {
			say("%s", answer)
			continue
		}
		switch strings.ToUpper(verb) {
		case "":
			return
		case "EHLO":
			say("250-test")
			if o.StartTLS && !secure {
				say("250-STARTTLS")
			} else if o.Auth != "" {
				say("250-AUTH %s", o.Auth)
			}
			say("250 8BITMIME")
		case "STARTTLS":
			say("220 go on")
			c, secure = tls.Server(c, config), true
			r.Reset(c)
		case "AUTH":
			decode := func(text string) string { b, _ := base64.StdEncoding.DecodeString(text); return string(b) }
			if way, first, _ := strings.Cut(rest, " "); way == "PLAIN" {
				parts := strings.Split(decode(first)+"\x00\x00", "\x00")
				e.User, e.Password = parts[1], parts[2]
			} else {
				say("334 %s", base64.StdEncoding.EncodeToString([]byte("Username:")))
				e.User = decode(read())
				say("334 %s", base64.StdEncoding.EncodeToString([]byte("Password:")))
				e.Password = decode(read())
			}
			if e.Password != SMTPPassword {
				say("535 5.7.8 Authentication credentials invalid")
				continue
			}
			say("235 2.7.0 Authentication successful")
		case "MAIL":
			e.From = rest
			say("250 ok")
		case "RCPT":
			e.To = rest
			say("250 ok")
		case "DATA":
			say("354 go on")
			for line := ""; line != "."; line = read() {
				if len(line) > 998 {
					say("500 5.5.2 Line too long")
					return
				}
				e.Data += line + "\n"
			}
			s.Got <- e
			say("250 2.0.0 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("502 5.5.2 unknown")
		}
	}
}
