package webhooks

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"spoolwright/db"
	"spoolwright/value/language"
)

const (
	maxActive   = 500 // webhooks that one instance works on at a time
	maxParallel = 4   // tries of one webhook at a time, in all instances together
	maxLoad     = 32  // deliveries that are loaded at a time
	maxTurn     = 10 * time.Second
	hangsAfter  = time.Second // without a response
	flushAfter  = 200 * time.Millisecond
)

// schedule lists the pauses between tries: the first element is the pause after the first try.
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// Run delivers events until ctx ends. Then it starts no further tries, waits for running tries for at most Grace, and
// returns.
//
// A worker of a webhook holds the lease of the webhook, so that no other instance sends its deliveries.
func (s *Service) Run(ctx context.Context) {
	go s.maintain(ctx)
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(s.Grace, cancel) })
	queue := db.Worker{DB: s.DB, Log: s.Log, Kind: db.Webhook, Active: s.Active, Poll: s.Poll, Lease: s.Config.Lease,
		Room: s.room,
		Handle: func(ctx context.Context, l *db.Lease) (*float64, error) {
			w := newWorker(s, l)
			s.setActive(w, true)
			defer s.setActive(w, false)
			return w.run(ctx, sending)
		}}
	queue.Run(ctx)
}

func (s *Service) setActive(w *worker, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if active {
		s.active[w] = struct{}{}
	} else {
		delete(s.active, w)
	}
}

// count returns the number of active workers.
func (s *Service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}

// room returns the number of workers that may be added to the active ones, and the tenants whose webhooks must not get
// one. When half of all workers are in use, tenants with hanging receivers get no further workers. If there is no room
// for another worker, room interrupts workers with hanging receivers until at most half of all workers have one. Each
// time, it chooses the tenant with the most such workers, and of them the worker that has waited longest.
func (s *Service) room(active int) (free int, except []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.Active/2 - active; n > 0 {
		return n, nil
	}
	hanging := map[string][]*worker{} // by tenant
	excess := -s.Active / 2
	for w := range s.active {
		if !w.waiting.IsZero() && time.Since(w.waiting) > hangsAfter {
			hanging[w.Tenant] = append(hanging[w.Tenant], w)
			excess++
		}
	}
	except = slices.Collect(maps.Keys(hanging))
	free = s.Active - active
	if free > 0 {
		return free, except
	}
	for _, workers := range hanging {
		slices.SortFunc(workers, func(a, b *worker) int { return a.waiting.Compare(b.waiting) })
	}
	if excess > 0 && time.Since(s.warned) >= time.Minute {
		s.warned = time.Now()
		s.Log.Warn("too many receivers of webhooks hang: ending the requests that have waited longest",
			"webhooks", active, "hanging", excess+s.Active/2, "tenants", len(hanging))
	}
	for ; excess > 0; excess-- {
		tenant := slices.MaxFunc(except, func(a, b string) int { return len(hanging[a]) - len(hanging[b]) })
		hanging[tenant][0].interrupt()
		hanging[tenant] = hanging[tenant][1:]
	}
	return free, except
}

// worker delivers the events of one webhook while it holds the lease of the webhook.
type worker struct {
	*Service
	*db.Lease
	waiting   time.Time // since when the receiver has not answered; zero if no request waits; set under the mutex
	requests  context.Context
	interrupt context.CancelFunc // ends requests
	results   chan result

	receiver
	look    bool     // whether due deliveries may exist that are not loaded
	next    *float64 // seconds until a delivery is due; nil if none is pending
	started bool     // whether record has run
	failing bool     // whether failing_since is set, as far as the worker knows
	loaded  []due
	running map[string]bool
	done    []result // not recorded yet
	oldest  time.Time
}

// receiver is the destination of the events of a webhook.
type receiver struct {
	url      string
	format   Format
	farm     string   // the name of the tenant
	currency string   // of the tenant, or ""
	language string   // of the tenant, or ""
	secrets  [][]byte // of the format standard; otherwise the token
	problem  string   // why no request or e-mail can be sent
}

// due is a delivery that is due.
type due struct {
	ID      string `json:"id"`
	EventID string `json:"event_id"`
	Body    string `json:"body"`
	Tries   int    `json:"tries"`

	CreatedAt time.Time `json:"created_at"`
	At        string    `json:"at"` // the same in the tenant's time zone, for people
	message   message   // of the format email, instead of the body
}

type result struct {
	due
	outcome
	dropped bool // the try does not count: the service stopped, or the receiver got less than the usual time
}

func newWorker(s *Service, l *db.Lease) *worker {
	return &worker{Service: s, Lease: l, results: make(chan result, maxParallel), running: map[string]bool{}, look: true}
}

// run delivers until no delivery is due, the lease is lost, or ctx ends. It returns when the next delivery is due, as
// db.Worker expects it. Tries use the context sending.
func (w *worker) run(ctx, sending context.Context) (next *float64, err error) {
	w.requests, w.interrupt = context.WithCancel(sending)
	defer w.interrupt()
	for {
		step := w.step
		if w.format == Email {
			step = w.stepEmail
		}
		ended, err := step(ctx, sending)
		if ended {
			return w.next, nil
		}
		if err != nil && !w.rest(ctx, sending) {
			return nil, err
		}
	}
}

// step records results, loads deliveries, starts tries, and waits until there is more to do. It returns true if there
// is nothing to wait for, and an error of the database.
func (w *worker) step(ctx, sending context.Context) (ended bool, err error) {
	stop := w.mustStop(ctx)
	load := !stop && w.look && len(w.loaded) == 0 && len(w.running) < maxParallel
	flush := len(w.done) > 0 && (len(w.done) >= maxLoad || len(w.running) == 0 || time.Since(w.oldest) > flushAfter)
	if load || flush {
		if again, err := w.exchange(load); again || err != nil || w.format == Email {
			return false, err
		}
	}
	if !stop {
		w.start(sending)
	}
	if len(w.running) == 0 && len(w.done) == 0 {
		return w.leave(stop), nil
	}
	ending := ctx.Done()
	if stop {
		ending = nil
	}
	w.await(ending)
	return false, nil
}

// mustStop reports whether the worker must start no further try: the service stops, the lease is lost or about to end,
// other webhooks wait for a worker, or the worker was interrupted. If so, it drops the loaded deliveries.
func (w *worker) mustStop(ctx context.Context) bool {
	stop := ctx.Err() != nil || !w.Valid() ||
		time.Since(w.Began) > maxTurn && w.count() >= w.Active/2 || w.requests.Err() != nil
	if stop {
		w.loaded, w.look = nil, true
	}
	return stop
}

// exchange records the results, and loads deliveries if load is set. It returns true if the worker must look for
// deliveries again.
func (w *worker) exchange(load bool) (again bool, err error) {
	state, err := w.record(load)
	if err != nil || state.cancelled { // there may be more deliveries to cancel
		return true, err
	}
	if load {
		w.look, w.next = state.full, state.next
	}
	return false, nil
}

// start starts tries of loaded deliveries.
func (w *worker) start(sending context.Context) {
	for len(w.loaded) > 0 && len(w.running) < maxParallel {
		d := w.loaded[0]
		w.loaded = w.loaded[1:]
		w.running[d.ID] = true
		to := w.receiver // running tries keep this receiver when record replaces it
		go func() { w.results <- w.try(sending, to, d) }()
	}
	if w.waiting.IsZero() {
		w.wait()
	}
}

// leave reports whether the worker ends: if it must stop, or has no further due deliveries to load. If it must stop,
// it makes the webhook due now, for another worker.
func (w *worker) leave(stop bool) bool {
	if stop {
		w.next = new(0.0)
	}
	return stop || !w.look
}

// await waits for results, new deliveries, the time to record results, or ending.
func (w *worker) await(ending <-chan struct{}) {
	var flushing <-chan time.Time
	if len(w.done) > 0 {
		flushing = time.After(flushAfter)
	}
	select {
	case r := <-w.results:
		w.collect(r)
		w.look = w.look || len(w.loaded) == 0
	case <-w.More:
		w.look = true
	case <-flushing:
	case <-ending:
	}
	for len(w.results) > 0 {
		w.collect(<-w.results)
	}
}

// rest pauses before the worker repeats an operation of the database. It returns false if the service stops and no time or
// no result is left.
func (w *worker) rest(ctx, sending context.Context) bool {
	select {
	case <-sending.Done():
		return false
	case <-time.After(time.Second):
	}
	return ctx.Err() == nil || len(w.done) > 0 || len(w.running) > 0
}

// wait records whether a request waits for a response of the receiver, and since when.
func (w *worker) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = time.Time{}
	if len(w.running) > 0 {
		w.waiting = time.Now()
	}
}

func (w *worker) collect(results ...result) {
	for _, r := range results {
		delete(w.running, r.ID)
		if r.dropped {
			continue
		}
		w.metrics.observe(w.status(r), r.took)
		if len(w.done) == 0 {
			w.oldest = time.Now()
		}
		w.done = append(w.done, r)
	}
	w.wait()
}

// try sends a delivery once.
func (w *worker) try(sending context.Context, to receiver, d due) result {
	r := result{due: d}
	if to.problem != "" {
		r.outcome = outcome{began: time.Now(), err: to.problem}
		return r
	}
	ctx, cancel := context.WithTimeout(w.requests, w.Timeout)
	defer cancel()
	r.outcome = w.sender.send(ctx, to, d.EventID, []byte(d.Body))
	if r.code == 0 && w.requests.Err() != nil {
		r.outcome, r.dropped = w.interrupted(sending, r.outcome)
	}
	return r
}

// interrupted returns the outcome of a try that was ended before there was a response, and whether the try does not
// count.
func (w *worker) interrupted(sending context.Context, o outcome) (outcome, bool) {
	o.err = language.Sprintf("no response in time, which was short because many receivers hang")
	return o, sending.Err() != nil || o.took < hangsAfter/2
}

// state is the state of a webhook's deliveries when record read them.
type state struct {
	next      *float64 // seconds until a delivery is due; nil if none is pending
	full      bool     // there may be more due deliveries than were loaded
	cancelled bool     // record has ended deliveries of a disabled or deleted webhook, and there may be more
}

// record writes the results in done. If look is set, it also loads the webhook and its due deliveries.
func (w *worker) record(look bool) (state, error) {
	var stmts []*db.Stmt
	var succeeded, failed, gone bool
	for _, r := range w.done {
		succeeded = succeeded || r.ok()
		failed = failed || !r.ok()
		gone = gone || r.code == http.StatusGone
	}
	if len(w.done) > 0 {
		stmts = append(stmts, w.update())
	}
	health, disabled := w.health(succeeded, failed, gone)
	stmts = append(stmts, health...)
	var url, format, farm, currency, language string
	var isDisabled, isFailing bool
	var secret, previous []byte
	webhook := db.SQL(`
		select url, disabled_at is not null, failing_since is not null, secret,
			case when previous_until > now() then previous_secret end, format,
			coalesce((select t.name from tenants t where t.tenant_id = $2), ''),
			coalesce((select t.currency from tenants t where t.tenant_id = $2), ''),
			coalesce((select t.language from tenants t where t.tenant_id = $2), '')
		from webhooks where id = $1`, w.ID, w.Tenant).
		Into(&url, &isDisabled, &isFailing, &secret, &previous, &format, &farm, &currency, &language)
	skip := make([]string, 0, maxParallel)
	for id := range w.running {
		skip = append(skip, id)
	}
	for _, d := range w.loaded {
		skip = append(skip, d.ID)
	}
	loaded := db.SQL(`
		select id, event_id, body, tries, created_at, to_char(created_at at time zone coalesce(
			(select t.time_zone from tenants t where t.tenant_id = $1), 'UTC'), 'YYYY-MM-DD HH24:MI') as at
		from webhook_deliveries
		where tenant_id = $1 and webhook_id = $2 and status = 'pending' and next_try_at <= now() and id <> all ($3::uuid[])
		order by next_try_at limit 32`, w.Tenant, w.ID, skip)
	var next *float64
	first := db.SQL(`
		select greatest(0, extract(epoch from next_try_at - now()))::float8 from webhook_deliveries
		where tenant_id = $1 and webhook_id = $2 and status = 'pending' and id <> all ($3::uuid[])
		order by next_try_at limit 1`,
		w.Tenant, w.ID, skip).Into(&next)
	if look {
		stmts = append(stmts, webhook, loaded, first)
	}
	write := w.Write
	if !w.started {
		write = w.writeFirst
	}
	if err := write(stmts...); err != nil {
		w.Log.Debug("cannot record the outcomes of deliveries; trying again", "webhook", w.ID, "error", err)
		return state{}, err
	}
	w.done, w.started = nil, true
	w.failing = !succeeded && (w.failing || failed)
	if disabled.Rows() > 0 {
		w.Log.Warn("a webhook was disabled: its receiver fails or answers 410", "tenant", w.Tenant, "webhook", w.ID)
	}
	if !look {
		return state{}, nil
	}
	if webhook.Rows() == 0 || isDisabled {
		ended, err := w.cancel(webhook.Rows() == 0)
		return state{cancelled: ended}, err
	}
	var further []due
	if err := json.Unmarshal(loaded.Array(), &further); err != nil {
		return state{}, err
	}
	w.receiver, w.failing = receiver{url: url, format: Format(format), farm: farm, currency: currency,
		language: language}, isFailing
	w.loaded = append(w.loaded, further...)
	w.openSecrets(secret, previous)
	return state{full: len(further) == maxLoad, next: next}, nil
}

// health returns the statements that record since when the webhook fails, and disable it if its receiver is gone or
// failed for too long. disabled is the statement that disables it, which may be one of them.
func (w *worker) health(succeeded, failed, gone bool) (stmts []*db.Stmt, disabled *db.Stmt) {
	switch {
	case succeeded && w.failing:
		stmts = append(stmts, db.SQL(`update webhooks set failing_since = null, updated_at = now()
			where id = $1 and failing_since is not null`, w.ID))
	case failed && !succeeded:
		stmts = append(stmts, db.SQL(`update webhooks set failing_since = now(), updated_at = now()
			where id = $1 and failing_since is null`, w.ID))
	}
	disabled = db.SQL(`
		update webhooks set disabled_at = now(), updated_at = now(),
			disabled_reason = case when $2 then 'gone' else 'failing' end
		where id = $1 and disabled_at is null and ($2 or failing_since < now() - interval '5 days')
		returning id`, w.ID, gone)
	if failed && !succeeded || gone {
		stmts = append(stmts, disabled)
	}
	return stmts, disabled
}

// openSecrets decrypts the secrets of the webhook for its signatures. Without any, the worker has a problem.
func (w *worker) openSecrets(all ...[]byte) {
	for _, text := range all {
		if text == nil {
			continue
		}
		opened, _, err := w.keys.open(w.Tenant, w.ID, text)
		if err == nil {
			w.secrets = append(w.secrets, opened)
		} else if len(w.secrets) == 0 {
			w.problem = err.Error()
			break
		}
	}
}

// writeFirst runs the first transaction of a worker. It does not wait for busy workers.
func (w *worker) writeFirst(stmts ...*db.Stmt) error {
	w.first <- struct{}{}
	defer func() { <-w.first }()
	return w.DB.Write(db.As(context.Background(), db.Actor{Tenant: w.Tenant}), stmts...)
}

// status returns the status of a delivery after a try.
func (w *worker) status(r result) DeliveryStatus {
	switch {
	case r.ok():
		return "delivered"
	case r.Tries < len(w.Schedule) && r.code != http.StatusGone && !r.permanent:
		return "pending"
	}
	return "failed"
}

// update returns the statement that records the results. A failure does not end a redelivery that began in the
// meantime and set tries to 0.
//
// The plan of the statement must find the deliveries by the primary key, whatever statistics PostgreSQL has for the
// table. The condition on r.webhook_id makes PostgreSQL expect one result, so that a look-up by the primary key is
// cheapest. The condition on next_try_at, which is set while a delivery is pending, does not match the index of due
// deliveries.
func (w *worker) update() *db.Stmt {
	var rows []map[string]any
	spread := 1 + (rand.Float64()*2-1)/10 // one for all: the events of an e-mail are due at the same time again
	for _, r := range w.done {
		row := map[string]any{
			"webhook_id": w.ID, "id": r.ID, "status": w.status(r), "tries": r.Tries, "began": r.began,
			"took": r.took.Milliseconds(),
		}
		if w.status(r) == "pending" {
			after := time.Duration(spread * float64(w.Schedule[r.Tries]))
			row["pause"] = max(after, r.retryAfter).Seconds()
		}
		if r.code != 0 {
			row["code"], row["response"] = r.code, r.response
		} else {
			row["error"] = r.err
		}
		rows = append(rows, row)
	}
	return db.SQL(`
		update webhook_deliveries d set status = r.status, tries = d.tries + 1,
			next_try_at = now() + make_interval(secs => r.pause),
			last_try_at = r.began, duration_ms = r.took, response_status = r.code, response = r.response, error = r.error
		from json_to_recordset($2::json) r (webhook_id uuid, id uuid, status text, tries int, pause float8,
			began timestamptz, took int, code int, response text, error text)
		where r.webhook_id = $1 and d.id = r.id and d.next_try_at is not null
			and (d.tries = r.tries or r.status = 'delivered')`, w.ID, db.Recordset(rows))
}

// cancel ends pending deliveries of a disabled webhook, or deletes deliveries of a deleted webhook. It reports whether
// there may be more such deliveries.
func (w *worker) cancel(deleted bool) (more bool, err error) {
	end := db.SQL(`
		update webhook_deliveries set status = 'failed', next_try_at = null, error = $3
		where tenant_id = $1 and id = any (array(
			select id from webhook_deliveries where tenant_id = $1 and webhook_id = $2 and status = 'pending' limit 1000))
		returning id`, w.Tenant, w.ID, language.Sprintf("the webhook is disabled"))
	if deleted {
		end = db.SQL(`
			delete from webhook_deliveries
			where tenant_id = $1 and id = any (array(
				select id from webhook_deliveries where tenant_id = $1 and webhook_id = $2 limit 1000))
			returning id`, w.Tenant, w.ID)
	}
	err = w.Write(end)
	return end.Rows() > 0, err
}

// maintain removes old deliveries and encrypts secrets again, now and every hour.
func (s *Service) maintain(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := s.Maintain(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("cannot remove old deliveries of webhooks; trying again in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Maintain deletes the ended deliveries older than 30 days of all tenants, and the deliveries of deleted webhooks. If
// a secret of a webhook is not encrypted with the first configured secret, Maintain encrypts it again with that
// secret, so that the other configured secrets can be removed. It also queues the webhooks with pending deliveries, in
// case the queue was lost, for example because a backup of single tables was restored.
func (s *Service) Maintain(ctx context.Context) error {
	return s.DB.EachTenant(ctx, s.maintainTenant)
}

func (s *Service) maintainTenant(ctx context.Context, tenant string) error {
	write := func(stmt *db.Stmt) error { return s.DB.Write(ctx, stmt) }
	webhooks := db.SQL(`
		select id, encode(secret, 'base64') as secret, encode(previous_secret, 'base64') as previous from webhooks
		where tenant_id = $1`, tenant)
	stored := db.SQL(`select id from webhook_deliveries where tenant_id = $1 limit 1`, tenant)
	if err := s.DB.Read(ctx, webhooks, stored); err != nil {
		return err
	}
	var all []struct {
		ID               string
		Secret, Previous []byte
	}
	if err := json.Unmarshal(webhooks.Array(), &all); err != nil {
		return err
	}
	for _, w := range all {
		for column, text := range map[string][]byte{"secret": w.Secret, "previous_secret": w.Previous} {
			secret, key, err := s.keys.open(tenant, w.ID, text)
			if err != nil || key == 0 {
				continue
			}
			err = write(db.SQL(`update webhooks set `+column+` = $2 where id = $1 and `+column+` = $3`,
				w.ID, s.keys.seal(tenant, w.ID, secret), text))
			if err != nil {
				return err
			}
		}
	}
	if stored.Rows() == 0 {
		return nil
	}
	for {
		old := db.SQL(`
			delete from webhook_deliveries
			where tenant_id = $1 and id = any (array(
				select d.id from webhook_deliveries d
				where d.tenant_id = $1 and d.status <> 'pending' and d.created_at < now() - interval '30 days'
					and d.id < $2 order by d.id limit 1000))
			returning id`, tenant, timeID(time.Now().Add(-30*24*time.Hour)))
		if err := write(old); err != nil {
			return err
		}
		if old.Rows() == 0 {
			break
		}
	}
	return write(db.SQL(`
		select queue_add(array_agg(d.webhook_id))::text
		from (select distinct webhook_id from webhook_deliveries where tenant_id = $1 and status = 'pending'
			union select distinct webhook_id from webhook_deliveries d where tenant_id = $1
				and not exists (select from webhooks w where w.tenant_id = $1 and w.id = d.webhook_id)) d
		having count(*) > 0`, tenant))
}

// timeID returns the smallest UUIDv7 of the first millisecond after a time.
func timeID(at time.Time) string {
	const digits = "0123456789abcdef"
	ms := at.UnixMilli() + 1
	id := []byte("00000000-0000-7000-8000-000000000000")
	for i := 12; i >= 0; i-- {
		if id[i] != '-' {
			id[i] = digits[ms&15]
			ms >>= 4
		}
	}
	return string(id)
}
