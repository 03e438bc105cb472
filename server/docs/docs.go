// Package docs serves the interactive documentation: Swagger UI at /docs, ReDoc at /redoc, the files that both load,
// the OpenAPI document, and the icon of all pages. All files are embedded.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed *.html *.js *.css *.svg bundles/*.gz
var files embed.FS

// These content security policies make the browser block all external resources. ReDoc needs two exceptions: it adds
// an inline style sheet, and it searches in a worker that it creates from a blob.
const (
	swaggerCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	redocCSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// Bundle is a JavaScript program that the documentation pages load: a file of an npm package that bundles/update has
// compressed.
type Bundle struct {
	Name, Version, License string // the npm package
	file                   string
	Contains               []BundledPackage
}

// Body returns the uncompressed program.
func (b Bundle) Body() []byte { return decompress(mustRead(files, b.file)) }

// BundledPackage is an npm package inside a bundle. Text is a part of the bundle that contains the version. A test
// searches the bundle for the text, and fails if an update of the bundle changed the version but not this list.
type BundledPackage struct{ Name, Version, License, Text string }

// Bundles are all bundles of the documentation pages.
var Bundles = []Bundle{
	{"swagger-ui-dist", "5.35.0", "Apache-2.0", "bundles/swagger-ui-bundle.js.gz", []BundledPackage{
		{"dompurify", "3.4.17", "MPL-2.0 OR Apache-2.0", `DOMPurify.version="3.4.17"`},
		{"react-dom", "18.3.1", "MIT", `version:"18.3.1",rendererPackageName:"react-dom"`},
		{"autolinker", "3.16.2", "MIT", `Autolinker.version="3.16.2"`},
		{"core-js-pure", "3.40.0", "MIT", `push({version:"3.40.0",mode:`},
		{"short-unique-id", "5.3.2", "Apache-2.0", `this.version="5.3.2";const{dictionary:`},
	}},
	{"redoc", "2.5.4", "MIT", "bundles/redoc.standalone.js.gz", []BundledPackage{
		{"dompurify", "3.4.13", "MPL-2.0 OR Apache-2.0", `n.version="3.4.13",n.removed=[]`},
		{"react-dom", "18.3.1", "MIT", `version:"18.3.1",rendererPackageName:"react-dom"`},
		{"core-js", "3.14.0", "MIT", `push({version:"3.14.0",mode:`},
		{"lunr", "2.3.9", "MIT", `j.version="2.3.9",j.utils={}`},
		{"styled-components", "5.3.11", "MIT", `data-styled-version="5.3.11"`},
	}},
}

const (
	typeHTML = "text/html; charset=utf-8"
	typeCSS  = "text/css; charset=utf-8"
	typeJS   = "text/javascript; charset=utf-8"
	typeSVG  = "image/svg+xml"
)

// Handler returns the handler of /docs, /redoc, and the files below these paths. It passes other paths to notFound.
// All links are relative, so that the pages work behind a path prefix.
func Handler(notFound http.Handler) http.Handler {
	assets := map[string]*asset{
		"/docs":                      ownAsset("swagger.html", typeHTML, swaggerCSP),
		"/docs/init.js":              ownAsset("swagger.js", typeJS, swaggerCSP),
		"/docs/own.css":              ownAsset("swagger.css", typeCSS, swaggerCSP),
		"/docs/swagger-ui.css":       bundleAsset("swagger-ui.css", typeCSS, swaggerCSP),
		"/docs/swagger-ui-bundle.js": bundleAsset("swagger-ui-bundle.js", typeJS, swaggerCSP),
		"/redoc":                     ownAsset("redoc.html", typeHTML, redocCSP),
		"/redoc/own.css":             ownAsset("redoc.css", typeCSS, redocCSP),
		"/redoc/init.js":             ownAsset("redoc.js", typeJS, redocCSP),
		"/redoc/redoc.standalone.js": bundleAsset("redoc.standalone.js", typeJS, redocCSP),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch a := assets[r.URL.Path]; {
		case a != nil:
			a.ServeHTTP(w, r)
		case r.URL.Path == "/docs/", r.URL.Path == "/redoc/":
			// http.Redirect would send an absolute path, without the prefix.
			w.Header().Set("Location", ".."+strings.TrimSuffix(r.URL.Path, "/"))
			w.WriteHeader(http.StatusPermanentRedirect)
		default:
			notFound.ServeHTTP(w, r)
		}
	})
}

// Icon returns the handler of the icon of all pages.
func Icon() http.Handler { return ownAsset("favicon.svg", typeSVG, swaggerCSP) }

// Document returns the handler of an OpenAPI document.
func Document(body []byte) http.Handler { return plainAsset(body, "application/json", "") }

// asset is a file in two forms, plain and compressed. A form is made when it is first requested, because most services
// need only the compressed form or neither form.
type asset struct {
	contentType, csp string
	plain, gzipped   func() form
}

type form struct {
	body []byte
	etag string
}

func ownAsset(name, contentType, csp string) *asset {
	return plainAsset(mustRead(files, name), contentType, csp)
}

// plainAsset returns the asset of an uncompressed file.
func plainAsset(body []byte, contentType, csp string) *asset {
	return &asset{contentType, csp,
		formOf(func() []byte { return body }),
		formOf(func() []byte { return compress(body) })}
}

// bundleAsset returns the asset of a file that is embedded compressed.
func bundleAsset(name, contentType, csp string) *asset {
	body := func() []byte { return mustRead(files, "bundles/"+name+".gz") }
	return &asset{contentType, csp,
		formOf(func() []byte { return decompress(body()) }),
		formOf(body)}
}

func formOf(body func() []byte) func() form {
	return sync.OnceValue(func() form {
		b := body()
		return form{b, fmt.Sprintf(`"%x"`, sha256.Sum256(b))}
	})
}

func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	if a.csp != "" {
		h.Set("Content-Security-Policy", a.csp)
	}
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache") // revalidate each time, so that an upgrade is visible at once
	body := a.plain
	if AcceptsGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = a.gzipped
	}
	f := body()
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

// AcceptsGzip reports whether these Accept-Encoding headers accept gzip. A "*" counts only if the headers do not name
// gzip.
func AcceptsGzip(headers []string) bool {
	star := false
	for item := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		coding, params, _ := strings.Cut(item, ";")
		accepted := true
		if name, q, ok := strings.Cut(params, "="); ok && strings.EqualFold(strings.TrimSpace(name), "q") {
			weight, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			accepted = err == nil && weight > 0
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return accepted
		case "*":
			star = accepted
		}
	}
	return star
}

// mustRead and decompress panic on errors, because the files are part of the program.

func mustRead(files fs.FS, name string) []byte {
	body, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err)
	}
	return body
}

func compress(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(body) // a bytes.Buffer returns no errors
	w.Close()
	return out.Bytes()
}

func decompress(body []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return plain
}
