package server

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"sync"

	"spoolwright/server/docs"
)

// compressFrom is the minimum size of a compressed list or page. A smaller body fits into two packets uncompressed.
// Other responses, such as plans, are compressed if they are larger than smallBody.
const compressFrom = 2 << 10

var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	return w
}}

// compressed returns the body and a newline, compressed with gzip. It returns nil if the client does not accept gzip
// or the body is small. It adds the header Vary in both cases.
func compressed(w http.ResponseWriter, r *http.Request, body []byte) []byte {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) < compressFrom || !docs.AcceptsGzip(r.Header.Values("Accept-Encoding")) {
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
