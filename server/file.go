package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"reflect"
	"time"

	"spoolwright/value"
)

// file is the response of an endpoint from HandleExport or HandleFile.
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
	Format value.Optional[ExportFormat] `query:"format" rule:"default=csv"`
}

func (q ExportQuery) format() ExportFormat { return q.Format.Or("csv") }

// HandleExport returns an endpoint whose response is a file, in the format that the query names. In embeds
// ExportQuery. The service sends the file while write runs. An error before write has written 64 KiB causes an error
// response. A later error breaks the connection, so that the client does not mistake a part for the whole file. The
// file is named after the resources, such as spools.csv.
func HandleExport[R any](
	resources string, write func(ctx context.Context, r R, w io.Writer, f ExportFormat) error,
) Endpoint {
	e := endpointOf(reflect.TypeFor[R](), outcome{Status: 200})
	decode := e.decoder()
	e.export = func(c call) (*file, error) {
		r, err := decode(c)
		f := r.Elem().Field(0).Interface().(interface{ format() ExportFormat }).format()
		send := func(ctx context.Context, w io.Writer) error { return write(ctx, r.Interface().(R), w, f) }
		return &file{ExportMedia[f] + "; charset=utf-8", resources + "." + string(f), send}, err
	}
	return e
}

// HandleFile returns an endpoint whose response is a file with the media type and the name. The service sends the file
// in the same way as a file of HandleExport.
func HandleFile(media, name string, write func(context.Context, io.Writer) error) Endpoint {
	e := endpointOf(reflect.TypeFor[*Request[struct{}]](), outcome{Status: 200})
	e.File = media
	decode := e.decoder()
	e.export = func(c call) (*file, error) {
		_, err := decode(c)
		return &file{media, name, write}, err
	}
	return e
}

const fileBuffer = 64 << 10

// sendFile answers the request of an endpoint from HandleExport, HandleFile, HandlePicture or HandleEvents.
func (o *operation) sendFile(w http.ResponseWriter, r *http.Request) error {
	c, err := o.read(w, r)
	if err != nil {
		return err
	}
	if o.route.Endpoint.picture != nil {
		return o.sendPicture(w, r, c)
	}
	if o.route.Endpoint.events != nil {
		poll, err := o.route.Endpoint.events(c, r.Header.Get("Last-Event-ID"))
		if err != nil {
			return err
		}
		return o.s.sendEvents(w, r, poll)
	}
	f, err := o.route.Endpoint.export(c)
	if err != nil {
		return err
	}
	return o.s.sendFile(r.Context(), w, infoOf(r), f)
}

// sendFile sends a file while it is written. It waits for its share of the memory first. See HandleExport.
func (s *Server) sendFile(ctx context.Context, w http.ResponseWriter, info *requestInfo, f *file) error {
	if err := info.keep(ctx, fileInFlight, fileWait); err != nil {
		return err
	}
	to := &fileWriter{w: w, file: f, last: time.Now().Add(streamTotal)}
	buffer := bufio.NewWriterSize(to, fileBuffer)
	err := f.write(ctx, buffer)
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
		if ctx.Err() == nil {
			s.Log.Error("a file was not sent completely", "request_id", info.id, "route", info.pattern, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// fileWriter sends a file. It breaks the connection of a client that does not read for a minute, or that has not read
// the whole file after streamTotal: it keeps a share of the memory, or the snapshot of an archive.
type fileWriter struct {
	w       http.ResponseWriter
	file    *file
	last    time.Time
	started bool
}

func (f *fileWriter) Write(b []byte) (int, error) {
	if !f.started {
		f.started = true
		f.w.Header().Set("Content-Type", f.file.media)
		if f.file.name != "" {
			f.w.Header().Set("Content-Disposition", `attachment; filename="`+f.file.name+`"`)
		}
	}
	next := time.Now().Add(time.Minute)
	if next.After(f.last) {
		next = f.last
	}
	http.NewResponseController(f.w).SetWriteDeadline(next)
	return f.w.Write(b)
}

// HandleText returns an endpoint that reads a body with another media type than JSON, and the query In. Example is an
// example of the body for the OpenAPI document. Prepare validates the body before the transaction of an
// Idempotency-Key begins, and has a slot of ReadsFile. Fn gets the result of prepare.
func HandleText[R any, P any, Out result](media, example string,
	prepare func(context.Context, R, []byte) (P, error),
	fn func(context.Context, R, P) (Out, error)) Endpoint {
	var out Out
	e := endpointOf(reflect.TypeFor[R](), out.outcome())
	e.Media, e.Example = media, example
	decode := e.decoder()
	e.prepare = func(ctx context.Context, c call) (run, error) {
		outer := c.problems
		c.problems = nil
		decoded, err := decode(c)
		r := decoded.Interface().(R)
		var prepared P
		var done func()
		if err == nil {
			done, err = ReadsFile(ctx)
		}
		if err == nil {
			defer done()
			prepared, err = prepare(ctx, r, c.body)
		}
		if err = outer.join(err); err != nil {
			return nil, err
		}
		return func(ctx context.Context) ([]byte, bool, error) {
			body, err := fn(ctx, r, prepared)
			return body, false, err
		}, nil
	}
	return e
}
