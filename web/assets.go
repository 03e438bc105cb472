package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"spoolwright/server/docs"
)

// file is an asset. The address contains a hash of the content, so that browsers can cache the asset without a limit.
type file struct {
	address, contentType string
	plain, zipped        []byte
}

// assets maps the names of the files in the folder static to the files. The style has the address of the icons, which
// are squares in a row: their numbers are in the style.
var assets = load()

func load() map[string]*file {
	all := map[string]*file{}
	for _, f := range [][2]string{{"icons.svg", "image/svg+xml"}, {"style.css", "text/css; charset=utf-8"},
		{"script.js", "text/javascript; charset=utf-8"}} {
		name := f[0]
		body, err := files.ReadFile("static/" + name)
		if err != nil {
			panic(err)
		}
		if name == "style.css" {
			body = bytes.ReplaceAll(body, []byte("icons.svg"), []byte(all["icons.svg"].address))
		}
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		z.Write(body) // a bytes.Buffer returns no errors
		z.Close()
		sum := sha256.Sum256(body)
		base, extension, _ := strings.Cut(name, ".")
		all[name] = &file{"/assets/" + base + "." + hex.EncodeToString(sum[:6]) + "." + extension,
			f[1], body, zipped.Bytes()}
	}
	return all
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if docs.AcceptsGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
	return nil
}
