package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"spoolwright/server"
	"spoolwright/server/docs"
)

var docsServer = sync.OnceValue(func() *server.Server { return server.New(server.Config{}) })

func docsGet(t *testing.T, method, path string, header map[string]string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	docsServer().ServeHTTP(w, r)
	return w.Result()
}

func docsBody(t *testing.T, res *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// docsWant has the content type and the Content-Security-Policy of each path. The policies are repeated here, so that
// a change of the program that allows more fails the test.
var docsWant = func() map[string]struct{ contentType, csp string } {
	const (
		swagger = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
		redoc = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
			"connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	)
	return map[string]struct{ contentType, csp string }{
		"/docs":                      {"text/html; charset=utf-8", swagger},
		"/docs/init.js":              {"text/javascript; charset=utf-8", swagger},
		"/docs/swagger-ui.css":       {"text/css; charset=utf-8", swagger},
		"/docs/swagger-ui-bundle.js": {"text/javascript; charset=utf-8", swagger},
		"/redoc":                     {"text/html; charset=utf-8", redoc},
		"/redoc/init.js":             {"text/javascript; charset=utf-8", redoc},
		"/redoc/redoc.standalone.js": {"text/javascript; charset=utf-8", redoc},
	}
}()

func TestDocsAssets(t *testing.T) {
	for path, want := range docsWant {
		t.Run(path, func(t *testing.T) {
			plain := docsGet(t, "GET", path, nil)
			gzipped := docsGet(t, "GET", path, map[string]string{"Accept-Encoding": "br, gzip;q=0.8"})
			for form, res := range map[string]*http.Response{"plain": plain, "gzip": gzipped} {
				if res.StatusCode != 200 {
					t.Fatalf("%s: status %d, want 200", form, res.StatusCode)
				}
				for k, v := range map[string]string{
					"Content-Type":            want.contentType,
					"Content-Security-Policy": want.csp,
					"X-Content-Type-Options":  "nosniff",
					"Cache-Control":           "no-cache",
					"Vary":                    "Accept-Encoding",
				} {
					if got := res.Header.Get(k); got != v {
						t.Errorf("%s: %s is %q, want %q", form, k, got, v)
					}
				}
			}
			if got := plain.Header.Get("Content-Encoding"); got != "" {
				t.Errorf("without Accept-Encoding the response is encoded as %q", got)
			}
			if got := gzipped.Header.Get("Content-Encoding"); got != "gzip" {
				t.Fatalf("with Accept-Encoding the response is encoded as %q, want gzip", got)
			}

			zr, err := gzip.NewReader(gzipped.Body)
			if err != nil {
				t.Fatal(err)
			}
			unpacked, err := io.ReadAll(zr)
			if err != nil {
				t.Fatal(err)
			}
			body := docsBody(t, plain)
			if len(body) == 0 || !bytes.Equal(body, unpacked) {
				t.Errorf("plain is %d bytes, gzip holds %d: they must be the same and not empty", len(body),
					len(unpacked))
			}

			if plain.Header.Get("ETag") == gzipped.Header.Get("ETag") {
				t.Error("the plain and the compressed form have the same ETag")
			}
			for form, res := range map[string]*http.Response{"": plain, "gzip": gzipped} {
				tag := res.Header.Get("ETag")
				if !regexp.MustCompile(`^"[0-9a-f]{64}"$`).MatchString(tag) {
					t.Errorf("ETag %q is not strong", tag)
				}
				again := docsGet(t, "GET", path, map[string]string{"Accept-Encoding": form, "If-None-Match": tag})
				if rest := docsBody(t, again); again.StatusCode != 304 || len(rest) != 0 {
					t.Errorf("If-None-Match: %d with %d bytes, want 304 with none", again.StatusCode, len(rest))
				}
				if again.Header.Get("ETag") != tag {
					t.Errorf("the 304 has ETag %q, want %q", again.Header.Get("ETag"), tag)
				}
			}

			head := docsGet(t, "HEAD", path, nil)
			if rest := docsBody(t, head); head.StatusCode != 200 || len(rest) != 0 {
				t.Errorf("HEAD: %d with %d bytes, want 200 with none", head.StatusCode, len(rest))
			}
		})
	}
}

// The pages refer only to assets that exist and to no other host, and contain no inline script or style.
func TestDocsPagesAreSelfContained(t *testing.T) {
	for _, page := range []string{"/docs", "/redoc"} {
		html := string(docsBody(t, docsGet(t, "GET", page, nil)))
		if !strings.Contains(html, "<title>") {
			t.Errorf("%s has no title", page)
		}
		if regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|<style|\sstyle=|\son[a-z]+=`).MatchString(html) {
			t.Errorf("%s has an inline script or style, which its policy blocks:\n%s", page, html)
		}
		links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(html, -1)
		if len(links) < 4 {
			t.Errorf("%s has %d links, expected at least 4", page, len(links))
		}
		for _, link := range links {
			target := link[1]
			switch {
			case strings.HasPrefix(target, "data:"), target == "openapi.json":
			case strings.Contains(target, ":"), strings.HasPrefix(target, "/"):
				t.Errorf("%s: %q is not relative", page, target)
			default:
				if res := docsGet(t, "GET", "/"+target, nil); res.StatusCode != 200 {
					t.Errorf("%s loads %q, which returns %d", page, target, res.StatusCode)
				}
			}
		}

		script := string(docsBody(t, docsGet(t, "GET", page+"/init.js", nil)))
		if !strings.Contains(script, `"openapi.json"`) {
			t.Errorf("%s/init.js does not contain openapi.json", page)
		}
		own := strings.ReplaceAll(html, "xmlns='http://www.w3.org/2000/svg'", "") // a name, and not an address to load
		if found := regexp.MustCompile(`(?i)(?:[a-z]+:)?//[a-z0-9][^\s"']*`).FindString(own + script); found != "" {
			t.Errorf("%s or its script contains the address of another host: %q", page, found)
		}
	}
}

func TestDocsTrailingSlash(t *testing.T) {
	for _, page := range []string{"/docs", "/redoc"} {
		res := docsGet(t, "GET", page+"/", nil)
		if res.StatusCode != 308 {
			t.Errorf("%s/: status %d, want 308", page, res.StatusCode)
		}
		target, err := res.Location()
		if err != nil {
			t.Fatalf("%s/: %v", page, err)
		}
		at := httptest.NewRequest("GET", "http://farm.test/prefix"+page+"/", nil).URL
		if got := at.ResolveReference(target).String(); got != "http://farm.test/prefix"+page {
			t.Errorf("%s/ behind a prefix leads to %s", page, got)
		}
	}
}

func TestDocsErrors(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/docs/swagger-ui.js", 404, "NOT_FOUND"},
		{"GET", "/docs/swagger-ui.css.gz", 404, "NOT_FOUND"},
		{"GET", "/docs/../docs.go", 404, "NOT_FOUND"},
		{"GET", "/docs/init.js/", 404, "NOT_FOUND"},
		{"GET", "/docs/redoc.standalone.js", 404, "NOT_FOUND"},
		{"GET", "/redoc/redoc.html", 404, "NOT_FOUND"},
		{"HEAD", "/redoc/nothing", 404, "NOT_FOUND"},
		{"POST", "/docs", 405, "METHOD_NOT_ALLOWED"},
		{"POST", "/docs/", 405, "METHOD_NOT_ALLOWED"},
		{"DELETE", "/redoc/init.js", 405, "METHOD_NOT_ALLOWED"},
	} {
		res := docsGet(t, c.method, c.path, nil)
		body := string(docsBody(t, res))
		if res.StatusCode != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) ||
			!strings.Contains(body, `"detail":"`) {
			t.Errorf("%s %s: %d %s, want %d with code %s", c.method, c.path, res.StatusCode, body, c.status, c.code)
		}
		if got := res.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s %s: Content-Type %q", c.method, c.path, got)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: nosniff is missing", c.method, c.path)
		}
		if allow := res.Header.Get("Allow"); (c.status == 405) != (allow == "GET, HEAD") {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, allow)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	cases := map[string]bool{
		"":                             false,
		"gzip":                         true,
		"GZIP":                         true,
		"x-gzip":                       true,
		"deflate, gzip, br, zstd":      true,
		"identity":                     false,
		"gzip;q=0":                     false,
		"gzip; Q=0.000":                false,
		"gzip;q=0.1, identity;q=1":     true,
		"gzip;q=much":                  false,
		"*":                            true,
		"*;q=0":                        false,
		"*, gzip;q=0":                  false,
		"gzip;q=0, *":                  false,
		"br, *;q=0.5":                  true,
		"gzippo":                       false,
		"identity; q=0.5 , gzip ; q=1": true,
	}
	for _, header := range slices.Sorted(maps.Keys(cases)) {
		if got := docs.AcceptsGzip([]string{header}); got != cases[header] {
			t.Errorf("Accept-Encoding %q: %v, want %v", header, got, cases[header])
		}
	}
	if !docs.AcceptsGzip([]string{"br", "gzip"}) {
		t.Error("the second of two headers is ignored")
	}
}
