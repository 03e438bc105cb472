package printers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

// use deducts the reported filament. Without an Idempotency-Key, the body alone does not tell a repeated report from a
// new one: printers report equal lengths one after the other.
func (q request) use(id int64) error {
	body, err := q.body()
	if err != nil {
		return err
	}
	weight, err := number(body, "use_weight")
	if err != nil {
		return err
	}
	length, err := number(body, "use_length")
	if err != nil {
		return err
	}
	if (weight == nil) == (length == nil) {
		return &server.Error{Status: 400, Code: "VALIDATION_ERROR",
			Detail: "Send either use_weight in g or use_length in mm"}
	}
	report := fmt.Sprintf("%d\n%v\n%v", id, weight, length)
	var problems server.Problems
	key := server.IdempotencyKey(q.r, &problems)
	if err := problems.Err(); err != nil {
		return err
	}
	if key != "" {
		return q.useOnce(id, key, report, weight, length)
	}
	p, repeated := q.reports.begin(q.r.Context(), q.caller.Actor.ID()+"\n"+report)
	if repeated {
		return q.sendSpool(id, q.db.Read)
	}
	used := db.SQL(`select report_use($1::int, $2::numeric, $3::numeric)`, id, weight, length)
	err = q.sendSpool(id, q.db.Write, used)
	lost := errors.Is(err, errWrite) || err == nil && q.r.Context().Err() != nil
	q.reports.end(p, lost)
	return err
}

// useOnce is use for a report with an Idempotency-Key, which takes effect once within 24 hours.
func (q request) useOnce(id int64, key, report string, weight, length any) error {
	sum := sha256.Sum256([]byte("use\n" + report))
	caller := q.caller.Actor.ID()
	used := db.SQL(`
		with claim as (
			insert into idempotency_keys as k (user_id, key, request, status) values ($4, $5, $6, 200)
			on conflict (tenant_id, user_id, key) do update set request = excluded.request, status = 200, created_at = now()
				where k.created_at < now() - interval '24 hours'
			returning key
		)
		select report_use($1::int, $2::numeric, $3::numeric) from claim`, id, weight, length, caller, key, sum[:])
	var first []byte
	stored := db.SQL(`select request from idempotency_keys where user_id = $1 and key = $2`, caller, key).Into(&first)
	var text string
	spool := selectSpool(q.tenant(), id).Into(&text)
	if err := q.db.Write(q.r.Context(), used, stored, spool); err != nil {
		return err
	}
	switch {
	case !bytes.Equal(first, sum[:]):
		return server.ErrKeyConflict
	case spool.Rows() == 0:
		return errNumber
	case used.Rows() == 0:
		q.w.Header().Set("Idempotency-Replayed", "true")
	}
	return q.sendChanged(text)
}

func (q request) measure(id int64) error {
	body, err := q.body()
	if err != nil {
		return err
	}
	if isNull(body["weight"]) {
		return server.Invalid("weight", "is required")
	}
	weight, ok := server.ParseDecimal(string(body["weight"]))
	if !ok || weight < 0 || weight > 1_000_000_000_000 {
		return server.Invalid("weight", "must be a number between 0 and 1000000")
	}
	var measured *bool
	measure := db.SQL(`select measure_spool((select id from spools
		where number = $1::int and num_nonnulls(number) = 1 and hidden_at is null), $2::numeric)`, id, weight.String()).
		Into(&measured)
	var text string
	spool := selectSpool(q.tenant(), id).Into(&text)
	if err := q.db.Write(q.r.Context(), measure, spool); err != nil {
		return err
	}
	if measured == nil {
		return errNumber
	}
	if !*measured {
		return errUnweighed
	}
	return q.sendChanged(text)
}

// repeatTime is how long the same report of a caller is a repetition of one whose answer was lost.
const repeatTime = 5 * time.Second

// reports recognises reports that a client sends again because it did not get the answer: its connection broke, or it
// stopped waiting. It knows only the reports of this instance.
type reports struct {
	mu  sync.Mutex
	all map[string]*report
}

// report is a report that is in progress, or whose answer was lost.
type report struct {
	key  string
	gone context.Context // ends when the client disconnects
	done chan bool       // closed at the end of the report
	lost time.Time       // when the answer was lost; the report has taken effect
}

func newReports() *reports { return &reports{all: map[string]*report{}} }

// begin reports whether a report is repeated. If it is not, end must be called for the returned report.
func (r *reports) begin(ctx context.Context, key string) (p *report, repeated bool) {
	p = &report{key: key, gone: ctx, done: make(chan bool)}
	for {
		r.mu.Lock()
		first := r.all[key]
		switch {
		case first == nil || first.lost.IsZero() && first.gone.Err() == nil ||
			!first.lost.IsZero() && time.Since(first.lost) > repeatTime:
			r.all[key] = p
			r.mu.Unlock()
			return p, false
		case !first.lost.IsZero():
			delete(r.all, key)
			r.mu.Unlock()
			return nil, true
		}
		r.mu.Unlock()
		<-first.done // its client is gone: whether it takes effect decides about this one
	}
}

// end ends a report. If lost is set, it took effect and its client may not have the answer.
func (r *reports) end(p *report, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lost {
		p.lost = time.Now()
		r.all[p.key] = p
		time.AfterFunc(repeatTime, func() { r.forget(p) })
	} else if r.all[p.key] == p {
		delete(r.all, p.key)
	}
	close(p.done)
}

func (r *reports) forget(p *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[p.key] == p {
		delete(r.all, p.key)
	}
}
