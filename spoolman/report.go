package spoolman

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// use deducts the reported filament. If a report has no Idempotency-Key, its body does not show whether the report is
// new or repeated: a printer can report the same length several times in a row.
func (q request) use(id int64) error {
	body, err := q.body()
	if err != nil {
		return err
	}
	weight, err := amount(body, "use_weight")
	if err != nil {
		return err
	}
	length, err := amount(body, "use_length")
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
	p := q.reports.begin(q.r.Context(), q.caller.Actor.ID(), id, report)
	used := db.SQL(`select spool from report_printed($1::int, $2::numeric, $3::numeric, $4::int8,
		$5::float8) spool
		where spool is not null`, id, weight, length, p.token, p.window())
	err = q.sendSpool(id, q.db.Write, used)
	q.reports.end(p, err == nil && q.r.Context().Err() == nil)
	return err
}

// useOnce is use for a report with an Idempotency-Key. Such a report takes effect once within 24 hours.
func (q request) useOnce(id int64, key, report string, weight, length any) error {
	sum := sha256.Sum256([]byte("use\n" + report))
	var first []byte
	used, stored := server.Once(q.caller.Actor.ID(), key, sum[:], &first,
		`select report_printed($5::int, $6::numeric, $7::numeric, null, null) from claim`, id, weight, length)
	spool := selectSpool(q.tenant(), id)
	var found *string
	used.Into(&found)
	err := q.db.Tx(q.r.Context(), func(ctx context.Context) error {
		if err := q.db.Write(ctx, used, stored, spool); err != nil {
			return err
		}
		switch {
		case !bytes.Equal(first, sum[:]):
			return server.ErrKeyConflict
		case spool.Rows() == 0 || used.Rows() == 1 && found == nil: // the key stays unused
			return notFound("spool", id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if used.Rows() == 0 {
		q.w.Header().Set("Idempotency-Replayed", "true")
	}
	return q.sendChanged(spool.Object())
}

// amount returns the number in a field of a body as a SQL argument, or nil if the field is absent or null.
func amount(b body, name string) (any, error) {
	d, err := b.decimal(name)
	if err != nil || d == nil {
		return nil, err
	}
	return d.String(), nil
}

func (q request) measure(id int64) error {
	b, err := q.body()
	if err != nil {
		return err
	}
	weight, err := b.decimal("weight")
	if err != nil {
		return err
	}
	if weight == nil || *weight < 0 || *weight > 1_000_000*value.DecimalOne {
		return server.Invalid("weight", "must be a number between 0 and 1000000")
	}
	return q.sendSpool(id, q.db.Write, inventory.MeasureGross(id, weight.String()))
}

const (
	// repeatTime is the time within which an equal report of the caller counts as a repetition of a report that got no
	// answer.
	repeatTime = 5 * time.Second
	// If this instance got a report of a caller on a spool within knownTime, it assumes that no other instance gets
	// reports of this caller on this spool.
	knownTime = time.Minute
	// noticeTime is the time within which the service notices that a client has disconnected. Until then, an equal
	// report may be a repetition, or a report of another printer with the same key.
	noticeTime = 100 * time.Millisecond
)

// reports recognizes reports that a client sends again because it did not get the answer: its connection broke, it
// stopped waiting, or the service or its database crashed. Each report has a token. A repetition has the token of the
// first try. The ledger keeps the token of a report with the entry to which the report was added, so the database can
// tell whether the first try took effect.
//
// If an instance has received no report of a caller on a spool for a minute, for example after its start, it cannot
// know whether another process received the previous report and did not answer. So it treats the first report as a
// repetition if an equal report took effect within repeatTime.
type reports struct {
	mu       sync.Mutex
	process  int64 // random
	sequence int64
	// The last report of each caller on each spool, by caller and spool. All reports in older began before renewed.
	recent, older map[string]*report
	renewed       time.Time
}

// report is one request of a client that sends a report.
type report struct {
	key   string
	token int64     // from the top: 32 bits of a hash of the report, 16 of the process, 16 of the sequence
	since time.Time // if not zero, an equal report that another process got since this time is the same report
	again bool      // whether the token is the token of an earlier request
	begun time.Time
	gone  context.Context // ends when the client disconnects; nil at the end
	done  chan struct{}   // closed at the end

	ended    time.Time
	answered bool
}

// window returns repeat_seconds, the last argument of report_printed.
func (p *report) window() any {
	switch {
	case !p.since.IsZero():
		return time.Since(p.since).Seconds()
	case p.again:
		return 0
	}
	return nil
}

// isLost reports whether the client may not have received the answer, and therefore may repeat the report.
func (p *report) isLost() bool {
	if p.ended.IsZero() {
		return p.gone.Err() != nil
	}
	return !p.answered && time.Since(p.ended) <= repeatTime
}

func newReports() *reports {
	return &reports{process: int64(rand.Uint32() & 0xffff), recent: map[string]*report{}}
}

// begin returns the report of a request with the content. ctx ends when the client disconnects. If an equal report is
// in progress, begin first waits until that report ends or its client disconnects, but for at most noticeTime. The
// caller of begin must call end.
func (r *reports) begin(ctx context.Context, caller string, spool int64, content string) *report {
	p := &report{key: fmt.Sprint(caller, spool), begun: time.Now(), gone: ctx, done: make(chan struct{})}
	sum := sha256.Sum256([]byte(caller + "\n" + content))
	hash := int64(int32(binary.BigEndian.Uint32(sum[:])))
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.begun.Sub(r.renewed) > knownTime {
		r.recent, r.older, r.renewed = map[string]*report{}, r.recent, p.begun
	}
	r.sequence++
	p.token = hash<<32 | r.process<<16 | r.sequence&0xffff
	last := cmp.Or(r.recent[p.key], r.older[p.key])
	r.recent[p.key] = p
	if last != nil && last.ended.IsZero() && last.token>>32 == hash {
		gone := last.gone
		r.mu.Unlock()
		select {
		case <-gone.Done():
		case <-last.done:
		case <-ctx.Done():
		case <-time.After(noticeTime):
		}
		r.mu.Lock()
	}
	switch {
	case last == nil || p.begun.Sub(last.begun) > knownTime:
		p.since = p.begun.Add(-repeatTime)
	case last.isLost():
		p.since = last.since
		if last.token>>32 == hash {
			p.token, p.again = last.token, true
		}
	}
	return p
}

// end records that the request has ended. answered reports whether the client received the answer.
func (r *reports) end(p *report, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.ended, p.answered, p.gone = time.Now(), answered, nil
	close(p.done)
}
