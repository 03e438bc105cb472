package webhooks

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"spoolwright/db"
)

const (
	maxActive   = 500 // webhooks that one instance works on at a time
	maxParallel = 4   // tries of one webhook at a time, in all instances together
	maxLoad     = 32  // deliveries that are loaded at a time
	maxTurn     = 10 * time.Second
	hangsAfter  = time.Second           // without a response
	claimPause  = 20 * time.Millisecond // the minimum pause between two looks at the queue
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
// Run claims webhooks with due deliveries from the queue: immediately after a transaction of this instance has added
// deliveries, and otherwise every two seconds. A worker holds the lease of its webhook, so that no other instance
// sends the deliveries of the webhook.
func (s *Service) Run(ctx context.Context) {
	go s.maintain(ctx)
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(s.Grace, cancel) })
	var workers sync.WaitGroup
	defer workers.Wait()
	failed := false
	for ctx.Err() == nil {
		claimed := time.Now()
		most, except := s.room()
		items, err := s.DB.Claim(ctx, db.Webhook, s.holder, most, s.Lease, except...)
		if err != nil && !failed && ctx.Err() == nil {
			s.Log.Warn("cannot look for due webhooks; trying again", "error", err)
		}
		failed = err != nil
		added := 0
		for _, item := range items {
			if w := s.admit(item, claimed); w != nil {
				added++
				workers.Go(func() {
					for w != nil {
						w.run(ctx, sending)
						w = s.end(w)
					}
				})
			}
		}
		if added == 0 || added < most {
			pause := time.NewTimer(s.Poll - time.Duration(rand.Int64N(int64(s.Poll)/4)))
			select {
			case <-ctx.Done():
			case <-pause.C:
			case <-s.DB.Queued():
			case <-s.freed:
			}
			pause.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(claimPause):
		}
	}
}

// count returns the number of active workers.
func (s *Service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}

// room returns how many workers may be added, and the tenants whose webhooks must not get one. When half of all
// workers are in use, tenants with hanging receivers get no further workers. If there is no room for another worker,
// room interrupts workers with hanging receivers until at most half of all workers have one. Each time, it chooses the
// tenant with the most such workers, and of them the worker that has waited longest.
func (s *Service) room() (most int, except []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.Active/2 - len(s.active); n > 0 {
		return n, nil
	}
	hanging := map[string][]*worker{} // by tenant
	excess := -s.Active / 2
	for _, w := range s.active {
		if !w.waiting.IsZero() && time.Since(w.waiting) > hangsAfter {
			hanging[w.tenant] = append(hanging[w.tenant], w)
			excess++
		}
	}
	except = slices.Collect(maps.Keys(hanging))
	most = s.Active - len(s.active)
	if most > 0 {
		return most, except
	}
	for _, workers := range hanging {
		slices.SortFunc(workers, func(a, b *worker) int { return a.waiting.Compare(b.waiting) })
	}
	if excess > 0 && time.Since(s.warned) >= time.Minute {
		s.warned = time.Now()
		s.Log.Warn("too many receivers of webhooks hang: ending the requests that have waited longest",
			"webhooks", len(s.active), "hanging", excess+s.Active/2, "tenants", len(hanging))
	}
	for ; excess > 0; excess-- {
		tenant := slices.MaxFunc(except, func(a, b string) int { return len(hanging[a]) - len(hanging[b]) })
		hanging[tenant][0].interrupt()
		hanging[tenant] = hanging[tenant][1:]
	}
	return most, except
}

// admit returns a new worker for an item that was just leased, or nil if a worker for the item exists.
func (s *Service) admit(item db.QueueItem, leased time.Time) *worker {
	key := db.QueueItem{Tenant: item.Tenant, ID: item.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.active[key]
	switch {
	case w != nil:
		if item.Fresh { // the worker has released its lease, or the lease has expired, and the worker is about to end
			w.again = leased
		}
		select {
		case w.more <- struct{}{}:
		default:
		}
		return nil
	case !item.Fresh:
		return nil
	}
	w = newWorker(s, key, leased)
	s.active[key] = w
	return w
}

// end removes a worker that has ended. If the item was leased again meanwhile, end returns a new worker for it. If all
// workers or exactly half of them were in use, end wakes Run, because room can now return more.
func (s *Service) end(w *worker) *worker {
	key := db.QueueItem{Tenant: w.tenant, ID: w.id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.again.IsZero() {
		w = newWorker(s, key, w.again)
		s.active[key] = w
		return w
	}
	if n := len(s.active); n == s.Active || n == s.Active/2 {
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
	delete(s.active, key)
	return nil
}

// write runs a transaction of the dispatcher. The number of concurrent transactions is limited, so that they leave
// connections to requests.
func (w *worker) write(ctx context.Context, stmts ...*db.Stmt) error {
	return w.writeIn(ctx, w.slots, stmts)
}

func (s *Service) writeIn(ctx context.Context, slots chan struct{}, stmts []*db.Stmt) error {
	slots <- struct{}{}
	defer func() { <-slots }()
	return s.DB.Write(ctx, stmts...)
}

// worker delivers the events of one webhook while it holds the lease of the webhook.
type worker struct {
	*Service
	tenant, id string
	more       chan struct{} // receives a value when the webhook has new deliveries
	again      time.Time     // when the item was leased again; set under the mutex
	waiting    time.Time     // since when the receiver has not answered; zero if no request waits; set under the mutex
	requests   context.Context
	interrupt  context.CancelFunc // ends requests
	results    chan []result      // of one request or e-mail

	leased time.Time // when the lease was last renewed
	began  time.Time
	receiver
	bound   context.Context // for statements: ends only with the program
	look    bool            // whether due deliveries may exist that are not loaded
	next    any             // seconds until a delivery is due, as release expects it
	lost    bool            // another instance has the lease
	started bool            // whether record has run
	failing bool            // whether failing_since is set, as far as the worker knows
	loaded  []due
	running map[string]bool
	done    []result // not recorded yet
	oldest  time.Time
}

// receiver is the destination of the events of a webhook.
type receiver struct {
	url         string
	format      Format
	farm        string   // the name of the tenant
	currency    string   // of the tenant, or ""
	secrets     [][]byte // of the format standard; otherwise the token
	problem     string   // why no request or e-mail can be sent
	noRecipient bool     // the problem is that nobody has the address who may get e-mails
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
	dropped bool // the try does not count: the service stopped, or the receiver had little time
}

func newWorker(s *Service, item db.QueueItem, leased time.Time) *worker {
	return &worker{
		Service: s, tenant: item.Tenant, id: item.ID, more: make(chan struct{}, 1),
		results: make(chan []result, maxParallel), leased: leased, began: leased, running: map[string]bool{}, look: true,
	}
}

// run delivers until no delivery is due, the lease is lost, or ctx ends. Tries use the context sending.
func (w *worker) run(ctx, sending context.Context) {
	w.bound = db.As(context.WithoutCancel(ctx), db.Actor{Tenant: w.tenant})
	w.requests, w.interrupt = context.WithCancel(sending)
	defer w.interrupt()
	renew := time.NewTicker(w.Lease / 3)
	defer renew.Stop()
	for {
		ended, err := w.step(ctx, sending, renew.C)
		if ended || err != nil && !w.rest(ctx, sending) {
			return
		}
	}
}

// step records results, loads deliveries, starts tries, and waits until there is more to do. If there is nothing to
// wait for, it releases the lease. It returns true if the worker no longer holds the lease, and an error of the
// database.
func (w *worker) step(ctx, sending context.Context, renew <-chan time.Time) (ended bool, err error) {
	stop := w.mustStop(ctx)
	if stop {
		w.loaded, w.look = nil, true
	}
	if again, err := w.exchange(!stop); again || err != nil {
		return false, err
	}
	if !stop {
		w.start(sending)
	}
	if len(w.running) == 0 && len(w.done) == 0 {
		return w.leave(stop)
	}
	ending := ctx.Done()
	if stop {
		ending = nil
	}
	w.await(ending, renew)
	return false, nil
}

// mustStop reports whether the worker must start no further try: the service stops, the lease is lost or about to end,
// other webhooks wait for a worker, or the worker was interrupted.
func (w *worker) mustStop(ctx context.Context) bool {
	return ctx.Err() != nil || w.lost || time.Since(w.leased) > w.Lease*5/6 ||
		time.Since(w.began) > maxTurn && w.count() >= w.Active/2 || w.requests.Err() != nil
}

// exchange records the results when they are due to be recorded, and loads deliveries if more is set and the worker
// can start further tries. It returns true if the worker must look for deliveries again.
func (w *worker) exchange(more bool) (again bool, err error) {
	load := more && w.look && len(w.loaded) < w.ahead() && len(w.running) < w.parallel()
	flush := len(w.done) > 0 && (len(w.done) >= maxLoad || len(w.running) == 0 || time.Since(w.oldest) > flushAfter)
	if !load && !flush {
		return false, nil
	}
	state, err := w.record(w.bound, load)
	if err != nil || state.cancelled { // there may be more deliveries to cancel
		return true, err
	}
	if load {
		w.look, w.next = state.full, state.next
		again = w.look && w.format == Email && len(w.loaded) < w.ahead()
	}
	return again, nil
}

// ahead returns how many deliveries must be loaded before further tries start, if there are so many.
func (w *worker) ahead() int {
	if w.format == Email {
		return maxPerEmail
	}
	return 1
}

// parallel returns how many deliveries may be tried at a time. What happens while an e-mail is sent goes into the next
// one.
func (w *worker) parallel() int {
	if w.format == Email {
		return 1
	}
	return maxParallel
}

// start starts tries of loaded deliveries.
func (w *worker) start(sending context.Context) {
	for len(w.loaded) > 0 && len(w.running) < w.parallel() {
		batch := w.loaded[:min(len(w.loaded), w.ahead())]
		w.loaded = w.loaded[len(batch):]
		for _, d := range batch {
			w.running[d.ID] = true
		}
		to := w.receiver // running tries keep this receiver when record replaces it
		if to.format == Email {
			go func() { w.results <- w.tryEmail(sending, to, batch) }()
		} else {
			go func() { w.results <- []result{w.try(sending, to, batch[0])} }()
		}
	}
	if w.waiting.IsZero() {
		w.wait()
	}
}

// leave releases the lease, unless the lease is lost or the worker can load further due deliveries. It returns true if
// the worker no longer holds the lease.
func (w *worker) leave(stop bool) (ended bool, err error) {
	if w.lost {
		return true, nil
	}
	if stop {
		w.next = 0.0
	} else if w.look {
		return false, nil
	}
	released, err := w.release(w.bound, w.next)
	ended = released && err == nil
	w.look = !ended
	return ended, err
}

// await waits for results, new deliveries, the time to record results or to renew the lease, or ending.
func (w *worker) await(ending <-chan struct{}, renew <-chan time.Time) {
	var flushing <-chan time.Time
	if len(w.done) > 0 {
		flushing = time.After(flushAfter)
	}
	select {
	case r := <-w.results:
		w.collect(r)
		w.look = w.look || len(w.loaded) == 0
	case <-w.more:
		w.look = true
	case <-flushing:
	case <-ending:
	case <-renew:
		w.lost = w.lost || !w.renew(w.bound)
	}
	for len(w.results) > 0 {
		w.collect(<-w.results)
	}
}

// rest waits before the worker repeats an operation of the database. It returns false if no time is left to repeat it.
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

func (w *worker) collect(results []result) {
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
	o.err = noResponse + ", which was short because many receivers hang"
	return o, sending.Err() != nil || o.took < hangsAfter/2
}

// state is the state of a webhook's deliveries when record has read them.
type state struct {
	next      any  // seconds until a delivery is due; nil if none is pending
	full      bool // there may be more due deliveries than were loaded
	cancelled bool // record has ended deliveries of a disabled or deleted webhook, and there may be more
}

// record writes the results in done. If look is set, it also loads the webhook and its due deliveries.
func (w *worker) record(ctx context.Context, look bool) (state, error) {
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
	switch {
	case succeeded && w.failing:
		stmts = append(stmts, db.SQL(`update webhooks set failing_since = null, updated_at = now()
			where id = $1 and failing_since is not null`, w.id))
	case failed && !succeeded:
		stmts = append(stmts, db.SQL(`update webhooks set failing_since = now(), updated_at = now()
			where id = $1 and failing_since is null`, w.id))
	}
	disabled := db.SQL(`
		update webhooks set disabled_at = now(), updated_at = now(),
			disabled_reason = case when $2 then 'gone' else 'failing' end
		where id = $1 and disabled_at is null and ($2 or failing_since < now() - interval '5 days')
		returning id`, w.id, gone)
	if failed && !succeeded || gone {
		stmts = append(stmts, disabled)
	}
	var url, format, farm, currency string
	var isDisabled, isFailing, isRecipientOf bool
	var secret, previous []byte
	webhook := db.SQL(`
		select url, disabled_at is not null, failing_since is not null, secret,
			case when previous_until > now() then previous_secret end, format,
			coalesce((select t.name from tenants t where t.tenant_id = $2), ''),
			coalesce((select t.currency from tenants t where t.tenant_id = $2), ''),
			format <> 'email' or exists (select from users u where `+isRecipient("substr(url, 8)")+`)
		from webhooks where id = $1`, w.id, w.tenant).
		Into(&url, &isDisabled, &isFailing, &secret, &previous, &format, &farm, &currency, &isRecipientOf)
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
		order by next_try_at limit 32`, w.tenant, w.id, skip)
	var next *float64
	first := db.SQL(`
		select greatest(0, extract(epoch from next_try_at - now()))::float8 from webhook_deliveries
		where tenant_id = $1 and webhook_id = $2 and status = 'pending' and id <> all ($3::uuid[])
		order by next_try_at limit 1`,
		w.tenant, w.id, skip).Into(&next)
	if look {
		stmts = append(stmts, webhook, loaded, first)
	}
	slots := w.slots
	if !w.started {
		slots = w.first
	}
	if err := w.writeIn(ctx, slots, stmts); err != nil {
		w.Log.Debug("cannot record the outcomes of deliveries; trying again", "webhook", w.id, "error", err)
		return state{}, err
	}
	w.done, w.started = nil, true
	w.failing = !succeeded && (w.failing || failed)
	if disabled.Rows() > 0 {
		w.Log.Warn("a webhook was disabled: its receiver fails or answers 410", "tenant", w.tenant, "webhook", w.id)
	}
	if !look {
		return state{}, nil
	}
	if webhook.Rows() == 0 || isDisabled {
		ended, err := w.cancel(ctx, webhook.Rows() == 0)
		return state{cancelled: ended}, err
	}
	var further []due
	if err := json.Unmarshal(loaded.Array(), &further); err != nil {
		return state{}, err
	}
	w.receiver, w.failing = receiver{url: url, format: Format(format), farm: farm, currency: currency}, isFailing
	if !isRecipientOf {
		w.problem, w.noRecipient = "no user of the farm who has set a password and is not disabled has the address", true
	}
	if w.format == Email {
		for i, d := range further {
			further[i].message, further[i].Body = newMessage([]byte(d.Body), w.PublicURL, currency), ""
		}
	}
	w.loaded = append(w.loaded, further...)
	for _, text := range [][]byte{secret, previous} {
		if text == nil {
			continue
		}
		opened, _, err := w.keys.open(w.tenant, w.id, text)
		if err == nil {
			w.secrets = append(w.secrets, opened)
		} else if len(w.secrets) == 0 {
			w.problem = err.Error()
			break
		}
	}
	after := state{full: len(further) == maxLoad}
	if next != nil {
		after.next = *next
	}
	return after, nil
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

// update returns the statement that records the results. A failure does not end a redelivery that began meanwhile and
// set tries to 0.
//
// The plan of the statement must find the deliveries by the primary key, whatever statistics PostgreSQL has for the
// table. The condition on r.webhook_id makes PostgreSQL expect one result, so that a look-up by the primary key is
// cheapest. The condition on next_try_at, which is set while a delivery is pending, does not match the index of due
// deliveries.
func (w *worker) update() *db.Stmt {
	var rows []map[string]any
	spread := func() float64 { return 1 + (rand.Float64()*2-1)/10 }
	together := spread() // the events of an e-mail are due at the same time again
	for _, r := range w.done {
		row := map[string]any{
			"webhook_id": w.id, "id": r.ID, "status": w.status(r), "tries": r.Tries, "began": r.began,
			"took": r.took.Milliseconds(),
		}
		if w.status(r) == "pending" {
			factor := together
			if w.format != Email {
				factor = spread()
			}
			after := time.Duration(factor * float64(w.Schedule[r.Tries]))
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
			and (d.tries = r.tries or r.status = 'delivered')`, w.id, db.Recordset(rows))
}

// cancel ends pending deliveries of a disabled webhook, or deletes deliveries of a deleted webhook. It reports whether
// there may be more such deliveries.
func (w *worker) cancel(ctx context.Context, deleted bool) (more bool, err error) {
	end := db.SQL(`
		update webhook_deliveries set status = 'failed', next_try_at = null, error = 'the webhook is disabled'
		where tenant_id = $1 and id = any (array(
			select id from webhook_deliveries where tenant_id = $1 and webhook_id = $2 and status = 'pending' limit 1000))
		returning id`, w.tenant, w.id)
	if deleted {
		end = db.SQL(`
			delete from webhook_deliveries
			where tenant_id = $1 and id = any (array(
				select id from webhook_deliveries where tenant_id = $1 and webhook_id = $2 limit 1000))
			returning id`, w.tenant, w.id)
	}
	err = w.write(ctx, end)
	return end.Rows() > 0, err
}

// renew extends the lease. It returns false if another instance holds the lease.
func (w *worker) renew(ctx context.Context) bool {
	var held bool
	now := time.Now()
	err := w.write(ctx, db.SQL(`select queue_renew($1, $2, $3)`, w.id, w.holder, int(w.Lease.Seconds())).Into(&held))
	if err == nil && held {
		w.leased = now
	}
	return err != nil || held // after an error, the lease ends by itself
}

// release ends the lease. It returns false if the webhook got new deliveries meanwhile.
func (w *worker) release(ctx context.Context, next any) (released bool, err error) {
	err = w.write(ctx, db.SQL(`select queue_release($1, $2, $3::float8)`, w.id, w.holder, next).Into(&released))
	return released, err
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
