package web_test

import (
	"cmp"
	"encoding/json"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"spoolwright/tests/testkit"
	"spoolwright/value/language"
)

// Tests know a made-up language, which brackets each text of the program.
func init() { language.Of("de").UseMadeUp() }

var (
	ids       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|swk\S+`)
	links     = regexp.MustCompile(`href="(/[^"#]*)`)
	bracketed = regexp.MustCompile(`(?s)⟦[^⟦⟧]*⟧`)
	untold    = regexp.MustCompile(`(?s)<(script|style|pre|code|kbd|output)\b.*?</(script|style|pre|code|kbd)>|<!--.*?-->`)
	spoken    = regexp.MustCompile(`\s(?:title|alt|aria-label|placeholder|data-confirm|data-scan|data-denied)="([^"]*)"`)
	ownWords  = strings.Fields("Spoolwright tenant API CSV QR URL SKU GTIN kg mm cm min Enter Esc PLA PETG ABS ASA TPU PA PC HIPS " +
		"Shopify WooCommerce Discord Microsoft Teams ntfy Gotify Slack Moonraker Klipper OctoPrint PrusaLink")
	skippedURL = regexp.MustCompile(`^/(docs|assets|farm-ca|openapi|api/)|\.(csv|gz|jsonl|ico)|format=|/picture$`)
)

// unspoken returns words of a page that are neither in brackets nor data.
func unspoken(p *page, known map[string]bool) (words []string) {
	texts := []string{tags.ReplaceAllString(untold.ReplaceAllString(p.text, " "), " ")}
	for _, m := range spoken.FindAllStringSubmatch(p.text, -1) {
		texts = append(texts, m[1])
	}
	if title := regexp.MustCompile(`<title>([^<]*)`).FindStringSubmatch(p.text); title != nil {
		texts = append(texts, title[1])
	}
	for _, text := range texts {
		text = ids.ReplaceAllString(html.UnescapeString(text), " ")
		for bracketed.MatchString(text) { // texts can be arguments of others
			text = bracketed.ReplaceAllString(text, " ")
		}
		for _, w := range splitWords(text) {
			if !known[w] && !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	return words
}

func splitWords(text string) (words []string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(w) > 1 {
			words = append(words, w)
		}
	}
	return words
}

// dataOf returns the words in all texts of the farm's data.
func dataOf(t *testing.T, c *testkit.Client) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	add := func(s string) {
		for _, w := range splitWords(s) {
			known[w] = true
		}
	}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case []any:
			for _, one := range v {
				collect(one)
			}
		case map[string]any:
			for name, one := range v {
				if !slices.Contains([]string{"status", "state", "kind", "detail", "type", "role", "action", "reason",
					"outcome", "code", "entity"}, name) {
					collect(one)
				}
			}
		}
	}
	for _, body := range everything(t, c) {
		var v any
		if json.Unmarshal([]byte(body), &v) == nil {
			collect(v)
		}
	}
	for _, name := range []string{"start/farm.json", "start/history.go"} { // have notes and names that lists do not have
		samples, err := os.ReadFile(name)
		testkit.Check(t, err)
		add(string(samples))
	}
	for _, w := range append(ownWords, splitWords(c.Email)...) {
		known[w] = true
	}
	for _, l := range language.All {
		add(l.Name)
	}
	return known
}

// TestMadeUpLanguage visits the pages of a farm in a language that brackets each text of the program. It sends their
// forms with values that the API refuses. Whatever has no brackets must be data.
func TestMadeUpLanguage(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	b.get(t, "/").submit(t, "/samples").to(t, "/")
	known := dataOf(t, c)
	b.header.Set("Accept-Language", "qps")
	queue := []string{"/", "/scan", "/settings", "/nothing", "/search?q=red", "/account", "/runs/all", "/packing"}
	seen, forms := map[string]int{}, map[string]bool{}
	check := func(p *page) {
		if words := unspoken(p, known); len(words) > 0 {
			t.Errorf("%s: %q", ids.ReplaceAllString(p.what, "{id}"), words)
		}
	}
	type sent struct {
		page   *page
		action string
	}
	var later []sent
	for len(queue) > 0 {
		path := html.UnescapeString(queue[0])
		queue = queue[1:]
		u, err := url.Parse(path)
		if err != nil || skippedURL.MatchString(path) {
			continue
		}
		pattern := ids.ReplaceAllString(u.Path, "{id}")
		for name := range u.Query() {
			pattern += " " + name
		}
		if seen[pattern]++; seen[pattern] > testkit.InRigs(1, 2) {
			continue
		}
		p := b.get(t, path)
		if p.status == 303 {
			queue = append(queue, p.header.Get("Location"))
			continue
		}
		check(p)
		for _, m := range links.FindAllStringSubmatch(p.text, -1) {
			queue = append(queue, m[1])
		}
		for _, form := range formTag.FindAllStringSubmatch(p.text, -1) {
			action, _ := attribute(form[1], "action")
			method, _ := attribute(form[1], "method")
			kind := ids.ReplaceAllString(action, "{id}")
			if method == "post" && !forms[kind] && !strings.Contains(action, "/remove") && action != "/sign-out" &&
				!strings.HasPrefix(action, "/account/") &&
				!strings.Contains(form[1], "multipart") {
				forms[kind] = true
				later = append(later, sent{p, action})
			}
		}
	}
	for _, one := range later {
		values := one.page.form(t, one.action)
		for name, all := range values {
			switch {
			case name == "once" || name == "tag" || strings.HasPrefix(name, "was."):
			case name == "id" || strings.HasSuffix(name, ".id"):
			case regexp.MustCompile(`^[0-9.,]+$`).MatchString(all[0]):
				values.Set(name, "-1")
			default:
				values.Set(name, "")
			}
		}
		p := b.do(t, "POST", one.action, values)
		if p.status == 303 {
			p = b.get(t, p.header.Get("Location"))
		}
		p.what = "POST " + one.action
		if p.status != 303 {
			check(p)
		}
	}
	if len(seen) < 60 || len(forms) < 40 {
		t.Errorf("%d pages, %d forms", len(seen), len(forms))
	}
}

// TestMadeUpPictures checks in a browser that no text of the made-up language is cut or overlaps another one, and that
// no page is wider than its window. If PICTURES names a folder, the test does the same in all languages, and stores
// pictures of all pages there. LANGUAGES are the tags of those to visit, if not all.
func TestMadeUpPictures(t *testing.T) {
	testkit.Rig(t)
	chromium := cmp.Or(os.Getenv("CHROMIUM"), "/usr/bin/chromium")
	for _, tool := range []string{"node", chromium} {
		if _, err := exec.LookPath(tool); err != nil {
			testkit.Skip(t, tool+" is not installed")
		}
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("PLAYWRIGHT_CORE"), "package.json")); err != nil {
		testkit.Skip(t, "PLAYWRIGHT_CORE is not the directory of playwright-core")
	}
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	signIn(t, c).get(t, "/").submit(t, "/samples").to(t, "/")
	codes := []string{"qps"}
	if os.Getenv("PICTURES") != "" {
		codes = append(codes, language.Codes()...)
	}
	if only := os.Getenv("LANGUAGES"); only != "" {
		codes = strings.Fields(only)
	}
	for _, code := range codes {
		args := []string{"../testdata/browser/languages.mjs", api.URL, c.Email, testkit.Password, code}
		if folder := os.Getenv("PICTURES"); folder != "" {
			args = append(args, filepath.Join(folder, code))
		}
		out, err := exec.Command("node", args...).CombinedOutput()
		t.Logf("%s: %s", code, out)
		if err != nil {
			t.Error(code, err)
		}
	}
}

// A person chooses a language on the sign-in page, and in the account; pages follow it. The farm's is for the others.
func TestChosenLanguage(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin, c := tenant.User(t, "admin"), tenant.User(t, "viewer")
	b := newBrowser(t, api.URL)
	b.get(t, "/sign-in?next=/spools").shows(t, "Deutsch", "日本語")
	p := b.get(t, "/sign-in?language=de&next=/spools").shows(t, "Anmelden")
	p = p.submit(t, "/sign-in", "email", c.Email, "password", testkit.Password).to(t, "/spools").shows(t, "Spulen")
	if !strings.Contains(p.text, `<html lang="de">`) || p.header.Get("Vary") == "" {
		t.Errorf("the page begins with %.100q, and varies by %q", p.text, p.header.Get("Vary"))
	}
	testkit.Equal(t, c.Get(t, "/api/v1/auth/me").Want(200).Text("language"), "de", "the chosen language")
	b.get(t, "/account").submit(t, "/account/language", "language", "ja").to(t, "/account").says(t, "言語を保存しました。")
	b.get(t, "/account").submit(t, "/account/language", "language", "").want(t, 303)
	b.get(t, "/spools").shows(t, "Spools")
	admin.Patch(t, "/api/v1/settings", j{"language": "pl"}).Want(200)
	b.get(t, "/spools").shows(t, "Szpule")
	b.header.Set("Accept-Language", "fr")
	b.get(t, "/spools").shows(t, "Szpule")
	admin.Patch(t, "/api/v1/settings", j{"language": nil}).Want(200)
	b.get(t, "/spools").shows(t, "Bobines")
}
