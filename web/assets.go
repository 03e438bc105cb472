package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// file is an asset. Its address has a hash of its content, so that browsers keep it for ever.
type file struct {
	contentType   string
	plain, zipped []byte
}

// assets are the files of the folder static by their addresses, and assetNames these addresses by the names.
var assets, assetNames = load()

func load() (map[string]*file, map[string]string) {
	all, names := map[string]*file{}, map[string]string{}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(err)
	}
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
	for _, entry := range entries {
		body, err := files.ReadFile("static/" + entry.Name())
		if err != nil {
			panic(err)
		}
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		z.Write(body) // a bytes.Buffer returns no errors
		z.Close()
		sum := sha256.Sum256(body)
		extension := path.Ext(entry.Name())
		address := "/assets/" + strings.TrimSuffix(entry.Name(), extension) + "." + hex.EncodeToString(sum[:6]) +
			extension
		all[address] = &file{types[extension], body, zipped.Bytes()}
		names[entry.Name()] = address
	}
	return all, names
}

// asset returns the address of an asset.
func asset(name string) string { return assetNames[name] }

func (f *file) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
	return nil
}
