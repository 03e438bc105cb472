package mail_test

import (
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"spoolwright/server/mail"
	"spoolwright/tests/testkit"
)

func sender(t *testing.T, url string, roots *x509.CertPool) *mail.Sender {
	t.Helper()
	server, err := mail.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	from, err := mail.ParseFrom("Färm <farm@farm.example>")
	if err != nil {
		t.Fatal(err)
	}
	return mail.New(server, from, roots)
}

// An e-mail arrives over TLS, STARTTLS, and without both on this machine, with the account of the URL.
func TestSend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme string
		testkit.SMTPOptions
	}{
		"smtps":    {"smtps", testkit.SMTPOptions{TLS: true, Auth: "PLAIN"}},
		"starttls": {"smtp", testkit.SMTPOptions{StartTLS: true, Auth: "LOGIN"}},
		"plain":    {"smtp", testkit.SMTPOptions{Auth: "PLAIN LOGIN"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.ServeSMTP(t, c.SMTPOptions)
			text := "Grüße\n.\n.hidden dot\n" + strings.Repeat("x", 3000) + "\r\nhttps://farm.example/password-link/A=B"
			err := sender(t, c.scheme+"://ada:p%40ss%2Fword@"+s.Address, s.Roots).Send(t.Context(),
				mail.Message{To: "bob@farm.example", Subject: "Größe\r\nBcc: eve@evil.example " + strings.Repeat("ö", 300),
					Text: text})
			if err != nil {
				t.Fatal(err)
			}
			e := <-s.Got
			if e.User != "ada" || e.From != "FROM:<farm@farm.example> BODY=8BITMIME" || e.To != "TO:<bob@farm.example>" {
				t.Errorf("the envelope is %+v", e)
			}
			m, err := netmail.ReadMessage(strings.NewReader(
				strings.TrimPrefix(strings.ReplaceAll(e.Data, "\n..", "\n."), "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if m.Header.Get("Bcc") != "" || m.Header.Get("Message-Id") == "" || m.Header.Get("Auto-Submitted") == "" {
				t.Errorf("the header is %v", m.Header)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
			if err != nil || !strings.HasPrefix(subject, "Größe  Bcc: eve@evil.example öö") ||
				len([]rune(subject)) != 200 {
				t.Errorf("the subject is %q, %v", subject, err)
			}
			if from, err := m.Header.AddressList("From"); err != nil || from[0].Name != "Färm" {
				t.Errorf("the sender is %v, %v", from, err)
			}
			body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
			if got := strings.TrimRight(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n"); err != nil ||
				got != strings.ReplaceAll(text, "\r\n", "\n") {
				t.Errorf("the text is %q, %v", got, err)
			}
			for _, line := range strings.Split(e.Data, "\n") {
				if len(line) > 200 {
					t.Errorf("a line has %d bytes", len(line))
				}
			}
		})
	}
}

// What prevents an e-mail is an error that says so, with the code of the server and without the password.
func TestSendFails(t *testing.T) {
	t.Parallel()
	code := func(t *testing.T, err error) int {
		t.Helper()
		var e *mail.Error
		if !errors.As(err, &e) || strings.Contains(err.Error(), "p@ss") {
			t.Fatalf("the error is %v", err)
		}
		return e.Code
	}
	to := mail.Message{To: "bob@farm.example", Subject: "S", Text: "T"}
	for name, c := range map[string]struct {
		testkit.SMTPOptions
		account string
		code    int
	}{
		"rejected":  {testkit.SMTPOptions{Refuse: map[string]string{"RCPT": "550 5.1.1 no such user"}}, "", 550},
		"later":     {testkit.SMTPOptions{Refuse: map[string]string{"MAIL": "451 4.3.0 later"}}, "", 451},
		"password":  {testkit.SMTPOptions{Auth: "PLAIN"}, "ada:p%40ss@", 535},
		"full":      {testkit.SMTPOptions{Refuse: map[string]string{"DATA": "452 4.2.2 full"}}, "", 452},
		"untrusted": {testkit.SMTPOptions{StartTLS: true}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.ServeSMTP(t, c.SMTPOptions)
			roots := s.Roots
			if name == "untrusted" {
				roots = x509.NewCertPool()
			}
			err := sender(t, "smtp://"+c.account+s.Address, roots).Send(t.Context(), to)
			if got := code(t, err); got != c.code || len(s.Got) > 0 {
				t.Errorf("the code is %d, %v, want %d", got, err, c.code)
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		code(t, sender(t, "smtp://127.0.0.1:1", nil).Send(t.Context(), to))
	})
	for _, address := range []string{"", "bob", "bob@farm.example\r\nRCPT TO:<eve@evil.example>", "<bob@farm.example>",
		"Bob <bob@farm.example>", "bob@farm.example, eve@evil.example", `"a b"@farm.example`,
		strings.Repeat("a", 320) + "@x"} {
		s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
		code(t, sender(t, "smtp://"+s.Address, nil).Send(t.Context(), mail.Message{To: address, Subject: "S", Text: "T"}))
		if mail.CheckAddress(address) == nil || len(s.Got) > 0 {
			t.Errorf("%q is accepted as an address", address)
		}
	}
}

// A server on another machine must offer STARTTLS, also if it needs no account.
func TestPlainIsRefused(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{Auth: "PLAIN"})
	for _, account := range []string{"", "ada:p%40ss%2Fword@"} {
		// 0.0.0.0 leads to this machine, but is no address of the loopback interface.
		remote := strings.Replace(s.Address, "127.0.0.1", "0.0.0.0", 1)
		to := sender(t, "smtp://"+account+remote, s.Roots)
		err := to.Send(t.Context(), mail.Message{To: "bob@farm.example"})
		if err == nil || err.Error() != "the mail server does not offer STARTTLS" {
			t.Errorf("the error is %v", err)
		}
	}
	if len(s.Got) > 0 {
		t.Error("an e-mail was sent without TLS")
	}
}

// An address gets at most 30 e-mails in an hour.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	to := sender(t, "smtp://"+s.Address, nil)
	for range 30 {
		if err := to.Send(t.Context(), mail.Message{To: "bob@farm.example", Text: "T"}); err != nil {
			t.Fatal(err)
		}
	}
	var e *mail.Error
	if err := to.Send(t.Context(), mail.Message{To: "BOB@farm.example"}); !errors.As(err, &e) ||
		e.Again < 50*time.Minute {
		t.Errorf("the 31st e-mail: %v", err)
	}
	if err := to.Send(t.Context(), mail.Message{To: "eve@farm.example"}); err != nil {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "smtp://", "http://h.example", "smtp://h.example:99999", "smtp://h.example:0",
		"smtp://h.example/path", "smtp://h.example?x", "smtps://u:p@ss/word@h.example", "h.example:25",
		"smtps://:p@h.example",
		"smtp://u:%0d%0a@h.example"} {
		if _, err := mail.ParseURL(url); err == nil || strings.Contains(err.Error(), "ss/word") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, from := range []string{"", "farm", "a@b.example, c@d.example", "Farm <farm@b.example>\r\nBcc: x@y.example"} {
		if _, err := mail.ParseFrom(from); err == nil {
			t.Errorf("%q is accepted", from)
		}
	}
}

// An SMTP server that others have written takes an e-mail.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	address, got := testkit.ServeAIOSMTPD(t)
	err := sender(t, "smtp://"+address, nil).
		Send(t.Context(), mail.Message{To: "bob@farm.example", Subject: "Größe", Text: "Grüße"})
	if err != nil {
		t.Fatal(err)
	}
	if text := got(); !strings.Contains(text, "Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=") ||
		!strings.Contains(text, "Gr=C3=BC=C3=9Fe") {
		t.Errorf("the server got %s", text)
	}
}

// A refusal of the recipient or of the e-mail is permanent, unlike one of the account and temporary ones. The id of an
// e-mail is the same in each try.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for verb, c := range map[string]struct {
		response  string
		permanent bool
	}{
		"RCPT": {"550 5.1.1 no such user", true}, "DATA": {"554 5.7.1 spam", true}, "MAIL": {"550 5.7.1 no relay", false},
		"EHLO": {"550 go away", false}, "rcpt": {"450 4.2.1 later", false}, "data": {"451 4.3.0 later", false},
	} {
		s := testkit.ServeSMTP(t, testkit.SMTPOptions{Refuse: map[string]string{strings.ToUpper(verb): c.response}})
		var e *mail.Error
		err := sender(t, "smtp://"+s.Address, nil).Send(t.Context(), mail.Message{To: "bob@farm.example"})
		if !errors.As(err, &e) || e.Permanent != c.permanent {
			t.Errorf("%s: %+v", c.response, err)
		}
	}
	for _, c := range []struct {
		response  string
		permanent bool
	}{{"550 5.7.1 spam", true}, {"451 4.7.1 greylisted", false}} {
		s := testkit.ServeSMTP(t, testkit.SMTPOptions{Judge: func(testkit.Email) string { return c.response }})
		var e *mail.Error
		err := sender(t, "smtp://"+s.Address, nil).Send(t.Context(), mail.Message{To: "bob@farm.example"})
		if !errors.As(err, &e) || e.Permanent != c.permanent {
			t.Errorf("%s: %+v", c.response, err)
		}
	}
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	for range 2 {
		testkit.Check(t, sender(t, "smtp://"+s.Address, nil).
			Send(t.Context(), mail.Message{To: "bob@farm.example", ID: "A1"}))
		header, _ := s.Wait(t).Read(t)
		testkit.Equal(t, header.Get("Message-Id"), "<A1@farm.example>", "the id")
	}
}
