package testkit

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	TLS, StartTLS bool               // TLS from the first byte, or after STARTTLS
	Auth          string             // PLAIN or LOGIN, or "" for none
	Refuse        map[string]string  // the response to a command, by its first word
	Judge         func(Email) string // returns the response to an e-mail; "" accepts it
}

// Read returns the header and the text of an e-mail.
func (e Email) Read(t *testing.T) (mail.Header, string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(strings.TrimPrefix(strings.ReplaceAll(e.Data, "\n..", "\n."), "\n")))
	Check(t, err)
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	Check(t, err)
	return m.Header, strings.ReplaceAll(string(text), "\r\n", "\n")
}

// Wait returns the next e-mail.
func (s *SMTP) Wait(t *testing.T) Email {
	t.Helper()
	select {
	case e := <-s.Got:
		return e
	case <-time.After(WaitTimeout):
		t.Fatal("no e-mail arrives")
	}
	panic("unreachable")
}

// ServeAIOSMTPD starts aiosmtpd, an SMTP server that others have written, and returns its address and a function that
// returns what it got. It needs the Python module aiosmtpd, in the virtual environment PRINTER_CLIENTS if that is set.
func ServeAIOSMTPD(t *testing.T) (address string, got func() string) {
	t.Helper()
	python := "python3"
	if tools := os.Getenv("PRINTER_CLIENTS"); tools != "" {
		python = filepath.Join(tools, "bin", "python")
	}
	if exec.Command(python, "-c", "import aiosmtpd").Run() != nil {
		Skip(t, "the Python module aiosmtpd is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Check(t, err)
	address = l.Addr().String()
	l.Close()
	box := filepath.Join(t.TempDir(), "box")
	log, err := os.Create(box)
	Check(t, err)
	c := exec.Command(python, "-u", "-m", "aiosmtpd", "-n", "-l", address, "-c", "aiosmtpd.handlers.Debugging", "stdout")
	c.Stdout, c.Stderr = log, log
	Check(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait(); log.Close() })
	Eventually(t, "aiosmtpd listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return address, func() string {
		b, err := os.ReadFile(box)
		Check(t, err)
		return string(b)
	}
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
			if o.Judge != nil {
				if answer := o.Judge(e); answer != "" {
					say("%s", answer)
					e = Email{User: e.User, Password: e.Password}
					continue
				}
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
