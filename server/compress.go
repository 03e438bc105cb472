package server

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"sync"
)

// compressFrom is the size of a list from which its response is compressed. Smaller ones fit into two packets anyway.
const compressFrom = 2 << 10

var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	return w
}}

// compressed returns the body with gzip, if the client accepts it and the body is large enough, and nil otherwise. It
// sets the header Vary in both cases.
func compressed(w http.ResponseWriter, r *http.Request, body []byte) []byte {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) < compressFrom || !acceptsGzip(r.Header.Values("Accept-Encoding")) {
		return nil
	}
	b := bytes.NewBuffer(make([]byte, 0, len(body)/4))
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(b)
	z.Write(body) // a bytes.Buffer returns no errors
	z.Write([]byte{'\n'})
	z.Close()
	gzipWriters.Put(z)
	return b.Bytes()
}
