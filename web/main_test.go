package web_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

func newAPI(t *testing.T, o testkit.Options) *testkit.API {
	t.Helper()
	return testkit.New(t, o, testkit.Features...)
}

// browser is a browser without JavaScript that follows no redirects by itself.
type browser struct {
	base   string
	client *http.Client
	header http.Header
}

func newBrowser(t testing.TB, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	testkit.Check(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{base, &http.Client{Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request,
		) error {
			return http.ErrUseLastResponse
		}}, http.Header{"Accept": {"text/html,*/*"}}}
}

// signIn returns a browser in which the user is signed in.
func signIn(t testing.TB, c *testkit.Client) *browser {
	t.Helper()
	b := newBrowser(t, c.API.URL)
	b.get(t, "/sign-in").submit(t, "/sign-in", "email", c.Email, "password", testkit.Password).want(t, 303)
	return b
}

func (b *browser) url(t testing.TB, path string) *url.URL {
	t.Helper()
	u, err := url.Parse(b.base + path)
	testkit.Check(t, err)
	return u
}

// cookie returns the name of the session's cookie over HTTP.
func (b *browser) cookie(t testing.TB) string {
	t.Helper()
	return "spoolwright-" + b.url(t, "").Port()
}

// page is a response.
type page struct {
	b      *browser
	what   string
	status int
	header http.Header
	text   string
}

func (b *browser) do(t testing.TB, method, path string, form url.Values) *page {
	t.Helper()
	r, err := http.NewRequest(method, b.base+path, strings.NewReader(form.Encode()))
	testkit.Check(t, err)
	for name, values := range b.header {
		r.Header[name] = values
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.send(t, r)
}

// send sends a request.
func (b *browser) send(t testing.TB, r *http.Request) *page {
	t.Helper()
	response, err := b.client.Do(r)
	testkit.Check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testkit.Check(t, err)
	return &page{b, r.Method + " " + r.URL.Path, response.StatusCode, response.Header, string(text)}
}

func (b *browser) get(t testing.TB, path string) *page { t.Helper(); return b.do(t, "GET", path, nil) }

func (p *page) want(t testing.TB, status int) *page {
	t.Helper()
	if p.status != status {
		t.Fatalf("%s: status %d, want %d\n%s", p.what, p.status, status, p.words())
	}
	return p
}

// to ends the test unless the page redirects to the path, and returns that page.
func (p *page) to(t *testing.T, path string) *page {
	t.Helper()
	p.want(t, 303)
	if got := p.header.Get("Location"); got != path {
		t.Fatalf("%s: redirects to %s, want %s", p.what, got, path)
	}
	return p.b.get(t, path).want(t, 200)
}

var tags = regexp.MustCompile(`(?s)<(script|style|title|svg).*?</(script|style|title|svg)>|<[^>]*>|\s+`)

// words returns the text of the page.
func (p *page) words() string {
	text := html.UnescapeString(tags.ReplaceAllString(p.text, " "))
	return strings.Join(strings.Fields(text), " ")
}

// shows ends the test unless the page has the texts.
func (p *page) shows(t *testing.T, texts ...string) *page {
	t.Helper()
	words := p.words()
	for _, text := range texts {
		if !strings.Contains(words, text) {
			t.Fatalf("%s: does not show %q: %s", p.what, text, words)
		}
	}
	return p
}

// hides ends the test if the page has one of the texts.
func (p *page) hides(t *testing.T, texts ...string) *page {
	t.Helper()
	words := p.words()
	for _, text := range texts {
		if strings.Contains(words, text) {
			t.Fatalf("%s: shows %q: %s", p.what, text, words)
		}
	}
	return p
}

var (
	formTag  = regexp.MustCompile(`(?s)<form([^>]*)>(.*?)</form>`)
	inputTag = regexp.MustCompile(`(?s)<input([^>]*)>|<textarea([^>]*)>\n?(.*?)</textarea>` +
		`|<select([^>]*)>(.*?)</select>`)
	optionTag = regexp.MustCompile(`<option([^>]*)>`)
)

var attributes = regexp.MustCompile(`\s([\w-]+)="([^"]*)"`)

func attribute(tag, name string) (string, bool) {
	for _, found := range attributes.FindAllStringSubmatch(tag, -1) {
		if found[1] == name {
			return html.UnescapeString(found[2]), true
		}
	}
	return "", false
}

// form returns what the form with the action would send.
func (p *page) form(t testing.TB, action string) url.Values {
	t.Helper()
	for _, form := range formTag.FindAllStringSubmatch(p.text, -1) {
		if at, _ := attribute(form[1], "action"); at != action {
			continue
		}
		values := url.Values{}
		for _, in := range inputTag.FindAllStringSubmatch(form[2], -1) {
			tag := in[1] + in[2] + in[4]
			name, ok := attribute(tag, "name")
			value, _ := attribute(tag, "value")
			kind, _ := attribute(tag, "type")
			switch {
			case !ok || (kind == "checkbox" || kind == "radio") && !strings.Contains(tag, " checked"):
				continue
			case in[2] != "":
				value = html.UnescapeString(in[3])
			case in[4] != "":
				for i, option := range optionTag.FindAllStringSubmatch(in[5], -1) {
					if v, _ := attribute(option[1], "value"); i == 0 || strings.Contains(option[1], " selected") {
						value = v
					}
				}
			}
			values.Add(name, value)
		}
		return values
	}
	t.Fatalf("%s: no form for %s: %s", p.what, action, p.words())
	return nil
}

// submit sends the form with the action after it has set inputs: pairs of names and values.
func (p *page) submit(t testing.TB, action string, inputs ...string) *page {
	t.Helper()
	values := p.form(t, action)
	for i := 0; i < len(inputs); i += 2 {
		values.Set(inputs[i], inputs[i+1])
	}
	return p.b.do(t, "POST", action, values)
}
