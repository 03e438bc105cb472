package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"reflect"
	"time"
)

// file is the response of an endpoint that HandleExport made.
type file struct {
	media, name string
	write       func(context.Context, io.Writer) error
}

// ExportFormat is the format of an export.
type ExportFormat string

// Enum returns all formats.
func (ExportFormat) Enum() []string { return []string{"csv", "jsonl"} }

// ExportMedia are the media types of the formats.
var ExportMedia = map[ExportFormat]string{"csv": "text/csv", "jsonl": "application/jsonl"}

// ExportQuery are the parameters of every export. The query type of an export embeds it as its first field.
type ExportQuery struct {
	Format Optional[ExportFormat] `query:"format" rule:"default=csv"`
}

func (q ExportQuery) format() ExportFormat { return q.Format.Or("csv") }

// HandleExport returns an endpoint whose response is a file in the format that the query has. In embeds ExportQuery.
// It sends the file while write runs. An error before the first 64 KiB is an error response; a later one breaks the
// connection, so that the client does not take the part for the whole. The name of the file is that of the resources.
func HandleExport[In interface{ format() ExportFormat }](
	resources string, write func(ctx context.Context, r *Request[In], w io.Writer, f ExportFormat) error,
) Endpoint {
	e := Endpoint{In: reflect.TypeFor[In](), Out: Outcome{Status: 200}}
	decode := requestOf[In](e)
	e.export = func(c call) (*file, error) {
		r, err := decode(c)
		f := r.In.format()
		return &file{ExportMedia[f], resources + "." + string(f), func(ctx context.Context, w io.Writer) error {
			return write(ctx, &r, w, f)
		}}, err
	}
	return e
}

const (
	fileBuffer   = 64 << 10
	fileInFlight = 8 << 20 // what a file that is being sent counts as: an export has a page in memory
)

// sendFile answers the request of an endpoint that HandleExport made.
func (o *operation) sendFile(w http.ResponseWriter, r *http.Request, info *requestInfo) error {
	ctx, err := o.authorize(w, r, info)
	if err != nil {
		return err
	}
	c, _, err := o.read(w, r)
	if err != nil {
		return err
	}
	f, err := o.route.Endpoint.export(c)
	if err != nil {
		return err
	}
	caller := info.caller.Actor.ID()
	if !o.s.inFlight.add(caller, fileInFlight, false) {
		return ErrUnavailable.Because(errInFlight)
	}
	defer o.s.inFlight.remove(caller, fileInFlight)
	to := &fileWriter{w: w, file: f}
	buffer := bufio.NewWriterSize(to, fileBuffer)
	err = f.write(ctx, buffer)
	if err != nil && !to.started {
		return err
	}
	if err == nil {
		err = buffer.Flush()
	}
	if err == nil && !to.started {
		_, err = to.Write(nil) // sends the headers of an empty file
	}
	if err != nil {
		if r.Context().Err() == nil {
			o.s.Log.Error("a file was not sent completely", "request_id", info.id, "route", info.pattern, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// fileWriter sends a file. A client that does not read for a minute loses the connection; the whole file may take
// longer.
type fileWriter struct {
	w       http.ResponseWriter
	file    *file
	started bool
}

func (f *fileWriter) Write(b []byte) (int, error) {
	if !f.started {
		f.started = true
		f.w.Header().Set("Content-Type", f.file.media+"; charset=utf-8")
		f.w.Header().Set("Content-Disposition", `attachment; filename="`+f.file.name+`"`)
	}
	http.NewResponseController(f.w).SetWriteDeadline(time.Now().Add(time.Minute))
	return f.w.Write(b)
}

// HandleText returns an endpoint that reads a body with another media type than JSON, and the query In. The example is
// for the OpenAPI document. Prepare validates the body before the transaction of an Idempotency-Key begins; fn gets
// its result.
func HandleText[In, P any, Out result](media, example string,
	prepare func(context.Context, *Request[In], []byte) (P, error),
	fn func(context.Context, *Request[In], P) (Out, error)) Endpoint {
	var out Out
	e := Endpoint{In: reflect.TypeFor[In](), Out: out.outcome(), Media: media, Example: example}
	decode := requestOf[In](e)
	e.prepare = func(ctx context.Context, c call) (run, error) {
		outer := c.problems
		c.problems = nil
		r, err := decode(c)
		var prepared P
		if err == nil {
			prepared, err = prepare(ctx, &r, c.body)
		}
		if err = outer.join(err); err != nil {
			return nil, err
		}
		return func(ctx context.Context) ([]byte, bool, error) {
			body, err := fn(ctx, &r, prepared)
			return body, false, err
		}, nil
	}
	return e
}
