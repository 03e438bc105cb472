package server

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
)

// Picture is a picture that the service sends.
type Picture struct {
	Media   string // image/png or image/jpeg
	Version string // differs for each picture
	Data    []byte
}

// HandlePicture returns an endpoint whose response is a picture. Clients may cache the picture forever if the query
// parameter v names its version, and otherwise revalidate it each time. The input of R has the method Known, which
// returns v.
func HandlePicture[R any](read func(context.Context, R) (*Picture, error)) Endpoint {
	e := endpointOf(reflect.TypeFor[R](), outcome{Status: 200})
	e.File = "image/png image/jpeg"
	decode := e.decoder()
	e.picture = func(ctx context.Context, c call) (*Picture, bool, error) {
		r, err := decode(c)
		if err != nil {
			return nil, false, err
		}
		p, err := read(ctx, r.Interface().(R))
		known := r.Elem().Field(0).Interface().(interface{ Known() string }).Known()
		return p, err == nil && known == p.Version, err
	}
	return e
}

// sendPicture answers the request of an endpoint from HandlePicture.
func (o *operation) sendPicture(w http.ResponseWriter, r *http.Request, c call) error {
	p, known, err := o.route.Endpoint.picture(r.Context(), c)
	if err != nil {
		return err
	}
	h := w.Header()
	tag := `"` + p.Version + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if known {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	if isKnown(r, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	// A picture is made by the service. The policy is for the day on which something else could be in it.
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Content-Type", p.Media)
	h.Set("Content-Length", strconv.Itoa(len(p.Data)))
	w.WriteHeader(http.StatusOK)
	w.Write(p.Data)
	return nil
}
