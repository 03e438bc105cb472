package blackbox_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/value"
	"spoolwright/webhooks"
)

// rig is instances of the service on one database, clients that repeat each request with its key until it is
// acknowledged, and the writes that were. A test breaks something meanwhile. In the end the database must contain each
// acknowledged write exactly once, and nothing else: see verify.
type rig struct {
	program   program
	instances []*instance
	token     string
	header    http.Header // of the requests of clients
	kills     bool        // instances are killed, so that a request may have no answer
	rare      atomic.Bool // each client pauses after a step

	spools  [rigSpools]string
	numbers map[string]int // of the spools
	product string
	kit     string // two pieces of product
	counted string // a product whose pieces are only counted
	shop    string // the address to which a shop sends its messages
	secret  []byte // with which the shop signs them
	file    []byte // a sliced file

	writes, reads, unanswered, unavailable, replays atomic.Int64

	ctx     context.Context // ends at the first failure
	fail    context.CancelCauseFunc
	clients sync.WaitGroup

	mu    sync.Mutex
	acked map[string]ack // by key

	// The quantity of the line of each order of the shop, by reference.
	messages map[string]int

	// Grams of reports without a key, by spool: each was acknowledged once, and may have been applied again by each
	// attempt without an answer.
	reported, uncertain map[string]value.Decimal
}

// instance is a process of the service, which may be killed and started again.
type instance struct {
	name                string
	env                 []string
	process             atomic.Pointer[process] // nil while it is down
	lastRead, lastWrite atomic.Int64            // when the last one succeeded, in nanoseconds of Unix time
}

// ack is an acknowledged write.
type ack struct {
	kind     string // such as deduct, create, run, complete, fail, print, order, pieces; see verify
	id       string // of the created resource, or of the run that has ended; "" of an assembly
	spool    string // of a deduction, its reversal, the end of a run or its correction
	weight   value.Decimal
	at       time.Time
	path     string // path, body and response are set for writes that verify may repeat
	body     any
	response []byte
}

const (
	rigSpools   = 50
	rigNetGrams = "1000000"         // initial weight of each spool
	rigShop     = "dragons.example" // the name of the shop, which is the source of its orders
	rigRepeats  = 200               // how many writes verify repeats
)

// newRig starts the instances, the first of which adds a user, and creates what the clients use.
func newRig(t *testing.T, instances ...*instance) *rig {
	t.Helper()
	r := &rig{program: buildProgram(t), instances: instances, acked: map[string]ack{},
		numbers: map[string]int{}, messages: map[string]int{},
		reported: map[string]value.Decimal{}, uncertain: map[string]value.Decimal{}}
	r.ctx, r.fail = context.WithCancelCause(t.Context())
	for i, at := range instances {
		at.env = slices.Concat(at.env, noLimits,
			[]string{secretEnv, "RATE_LIMIT_TENANT_PER_MINUTE=0", "ACCESS_TOKEN_EXPIRE_MINUTES=10000", loopbackWebhooks})
		if i == 0 {
			r.program.addUser(t, at.env, "farm", "ada@farm.example", "admin")
		}
		r.start(t, at)
	}
	c := instances[0].process.Load()
	r.token = c.login(t, "ada@farm.example", testPassword)
	r.header = bearer(r.token)
	create := func(path string, body map[string]any) map[string]any {
		t.Helper()
		return c.create(t, r.token, path, body)
	}
	for i := range r.spools {
		spool := create("/api/v1/spools", rigSpool("start"))
		r.spools[i] = spool["id"].(string)
		r.numbers[r.spools[i]] = int(spool["number"].(float64))
	}
	product := func(body map[string]any) string {
		t.Helper()
		return create("/api/v1/products", body)["id"].(string)
	}
	r.product, r.counted = product(map[string]any{"name": "Part", "sku": "PART"}),
		product(map[string]any{"name": "Counted"})
	r.kit = product(map[string]any{"name": "Kit",
		"components": []any{map[string]any{"component_product_id": r.product, "quantity": 2}}})
	create("/api/v1/products/"+r.product+"/adjust", map[string]any{"pieces": 1_000_000, "reason": "start"})
	shop := create("/api/v1/shops", map[string]any{"kind": "generic", "name": rigShop})
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(shop["secret"].(string), "whsec_"))
	check(t, err)
	r.shop, r.secret = shop["address"].(string), secret
	r.file, err = os.ReadFile("catalog/slicer/testdata/prusaslicer.gcode")
	check(t, err)
	return r
}

func rigSpool(notes string) map[string]any {
	return map[string]any{
		"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": json.Number(rigNetGrams), "notes": notes,
	}
}

// start starts an instance, or restarts one that was killed.
func (r *rig) start(t *testing.T, at *instance) {
	t.Helper()
	c := r.program.startAs(t, func(c *exec.Cmd) {
		c.Stderr = &logFilter{to: c.Stderr, onInternalError: func(line []byte) { t.Logf("%s", line) }}
	}, at.env)
	c.client.Timeout = waitTimeout
	at.process.Store(c)
}

// kill ends an instance at once, and starts it again.
func (r *rig) kill(t *testing.T, at *instance) {
	t.Helper()
	c := at.process.Swap(nil)
	check(t, c.cmd.Process.Kill())
	<-c.exited
	r.start(t, at)
}

// logFilter passes log lines on, except those of successful requests, so that a long test does not keep them in
// memory.
type logFilter struct {
	to              io.Writer
	onInternalError func(line []byte) // called instead for internal errors of PostgreSQL
	rest            []byte
}

func (s *logFilter) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		end := bytes.IndexByte(s.rest, '\n') + 1
		if end == 0 {
			return len(b), nil
		}
		if line := s.rest[:end]; bytes.Contains(line, []byte("internal error")) {
			s.onInternalError(line)
		} else if !bytes.Contains(line, []byte("level=INFO msg=request")) {
			s.to.Write(line)
		}
		s.rest = s.rest[end:]
	}
}

// failure returns the first error of a client, or nil.
func (r *rig) failure() error { return context.Cause(r.ctx) }

// eventually also returns when a client has failed, because requests are cancelled then.
func (r *rig) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventually(t, what, func() bool { return is() || r.failure() != nil })
}

// attempt sends a request to a process once. The shop signs its messages; their key is the id of the message.
func (r *rig) attempt(p *process, method, path, key string, body any) (answer, error) {
	header := r.header.Clone()
	if path == r.shop {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		id, now := cmp.Or(key, "message"), time.Now().Unix()
		header = http.Header{"Content-Type": {"application/json"}}
		header.Set("webhook-id", id)
		header.Set("webhook-timestamp", strconv.FormatInt(now, 10))
		header.Set("webhook-signature", webhooks.Signature(r.secret, id, now, b))
		body = b
	} else if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return p.send(r.ctx, method, path, header, body)
}

// replayed reports whether the answer is that to an earlier request with the key.
func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") != "" }

// invalid returns an error unless the answer is JSON, and a 503 no replay and with the time of the next attempt.
func (a answer) invalid() error {
	isJSON := json.Valid(a.body) && a.header.Get("Content-Type") == "application/json"
	if !isJSON || a.status == 503 && (a.header.Get("Retry-After") == "" || a.replayed()) {
		return fmt.Errorf("an invalid answer: %d %v %s", a.status, a.header, a.body)
	}
	return nil
}

// rigClient sends requests to one instance, or each to a random one.
type rigClient struct {
	*rig
	at    *instance // nil: any
	acked map[string]ack
}

// run starts clients of an instance, or of all if at is nil. They write while more returns true.
func (r *rig) run(clients int, at *instance, more func() bool) {
	for n := range clients {
		c := &rigClient{rig: r, at: at, acked: map[string]ack{}}
		prefix := strconv.Itoa(n)
		if at != nil {
			prefix = at.name + "-" + prefix
		}
		r.clients.Go(func() {
			for n := 0; more() && r.ctx.Err() == nil; n++ {
				if err := c.step(fmt.Sprint(prefix, "-", n)); err != nil {
					r.fail(fmt.Errorf("client %s: %w", prefix, err))
				}
				if r.rare.Load() {
					time.Sleep(500 * time.Millisecond)
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			maps.Copy(r.acked, c.acked)
		})
	}
}

// load starts clients of each instance, and one that only reads. They work until end is called, which returns after
// the last write of each is acknowledged.
func (r *rig) load(clients int) (end func()) {
	var stop atomic.Bool
	more := func() bool { return !stop.Load() }
	for _, at := range r.instances {
		r.run(clients, at, more)
		c := &rigClient{rig: r, at: at}
		r.clients.Go(func() {
			for more() && r.ctx.Err() == nil {
				a, err := c.send("GET", "/api/v1/spools?limit=20", "", nil, nil)
				if err == nil && a.status != 200 {
					err = fmt.Errorf("GET /api/v1/spools: %d %s", a.status, a.body)
				}
				if err != nil {
					r.fail(err)
				}
				time.Sleep(50 * time.Millisecond) // not as fast as possible: the writes matter more
			}
		})
	}
	return func() { stop.Store(true); r.clients.Wait() }
}

// awaitAnswers waits until each instance has answered a read and acknowledged a write after since, and returns how
// long that took.
func (r *rig) awaitAnswers(t *testing.T, since time.Time) map[string]time.Duration {
	t.Helper()
	took := map[string]time.Duration{}
	r.eventually(t, "all instances read and write", func() bool {
		for _, at := range r.instances {
			for kind, last := range map[string]*atomic.Int64{"reads": &at.lastRead, "writes": &at.lastWrite} {
				name, after := at.name+" "+kind, time.Unix(0, last.Load()).Sub(since)
				if _, known := took[name]; !known && after > 0 {
					took[name] = after.Round(10 * time.Millisecond)
				}
			}
		}
		return len(took) == 2*len(r.instances)
	})
	check(t, r.failure())
	return took
}

// awaitWrites waits until clients have begun n more writes.
func (r *rig) awaitWrites(t *testing.T, n int64) {
	t.Helper()
	n += r.writes.Load()
	r.eventually(t, "clients write", func() bool { return r.writes.Load() >= n })
	check(t, r.failure())
}

// send sends a request until the answer has another status than 503. It calls unknown, which may be nil, after each
// attempt that may have had an effect although no answer says so.
func (c *rigClient) send(method, path, key string, body any, unknown func()) (answer, error) {
	for begin := time.Now(); c.ctx.Err() == nil; time.Sleep(rand.N(50 * time.Millisecond)) { // less than Retry-After
		at := c.at
		if at == nil {
			at = c.instances[rand.IntN(len(c.instances))]
		}
		p := at.process.Load()
		if p == nil {
			continue
		}
		a, err := c.attempt(p, method, path, key, body)
		switch {
		case err != nil && c.kills:
			c.unanswered.Add(1)
		case err != nil:
			return a, fmt.Errorf("%s %s to %s with the key %q: %w", method, path, at.name, key, err)
		case a.invalid() != nil:
			return a, a.invalid()
		case a.status != 503:
			c.note(at, method, a)
			return a, nil
		case time.Since(begin) > waitTimeout:
			return a, fmt.Errorf("%s %s to %s with the key %q, for %v: %s", method, path, at.name, key, waitTimeout, a.body)
		default:
			c.unavailable.Add(1)
		}
		if unknown != nil {
			unknown()
		}
	}
	return answer{}, c.failure()
}

// note counts a request that was answered.
func (r *rig) note(at *instance, method string, a answer) {
	if a.replayed() {
		r.replays.Add(1)
	}
	switch now := time.Now().UnixNano(); {
	case a.status >= 300:
	case method == "GET":
		r.reads.Add(1)
		at.lastRead.Store(now)
	default:
		at.lastWrite.Store(now)
	}
}

// write sends a POST until it is acknowledged with the status, and notes that. One in 20 is sent twice, concurrently,
// with the same key.
func (c *rigClient) write(key, path string, body any, status int, a ack) (ack, error) {
	c.writes.Add(1)
	var second answer
	var secondErr error
	var wg sync.WaitGroup
	twice := rand.IntN(20) == 0
	if twice {
		wg.Go(func() { second, secondErr = c.send("POST", path, key, body, nil) })
	}
	first, err := c.send("POST", path, key, body, nil)
	wg.Wait()
	switch {
	case err != nil || secondErr != nil:
		return a, errors.Join(err, secondErr)
	case first.status != status:
		return a, fmt.Errorf("POST %s: %d %s", path, first.status, first.body)
	case twice && (second.status != status || !bytes.Equal(second.body, first.body)):
		return a, fmt.Errorf("POST %s, sent twice: %d %s and %d %s",
			path, first.status, first.body, second.status, second.body)
	case twice && !first.replayed() && !second.replayed():
		return a, fmt.Errorf("POST %s, sent twice: neither response is a replay", path)
	}
	var created struct {
		ID        string
		ProductID string `json:"product_id"` // in the response to a file
		Deducted  json.Number
		Spools    []struct{ Deducted json.Number } `json:"spools_updated"`
	}
	if err := json.Unmarshal(first.body, &created); err != nil {
		return a, err
	}
	created.ID = cmp.Or(created.ID, created.ProductID)
	if a.id == "" {
		a.id = created.ID
	}
	deducted := created.Deducted
	if len(created.Spools) == 1 {
		deducted = created.Spools[0].Deducted
	}
	if a.id != created.ID || a.weight > 0 && deducted.String() != a.weight.String() {
		return a, fmt.Errorf("POST %s of %v: %s", path, a.weight, first.body)
	}
	a.at = time.Now()
	a.path, a.body, a.response = path, body, first.body
	c.acked[key] = a
	return a, nil
}

// step deducts, creates a spool, a product or an order, changes pieces in stock, or creates a run and completes, fails
// or cancels it. It also takes deductions back and corrects runs.
func (c *rigClient) step(key string) error {
	spool := c.spools[rand.IntN(rigSpools)]
	weight := value.Decimal(1 + rand.IntN(500_000))
	grams := json.Number(weight.String())
	switch n := rand.IntN(11); {
	case n < 1:
		return c.report(spool, weight)
	case n >= 10 && rand.IntN(4) == 0:
		file := slices.Concat(c.file, []byte("\n; "+key+"\n")) // the same file would update the first product
		_, err := c.write(key, "/api/v1/products/from-file?name="+key, file, 200, ack{kind: "file"})
		return err
	case n >= 10:
		return c.message(key)
	case n < 2: // like a printer
		c.writes.Add(1)
		path := fmt.Sprintf("/spoolman/api/v1/spool/%d/use", c.numbers[spool])
		a, err := c.send("PUT", path, key, map[string]any{"use_weight": grams}, nil)
		if err == nil && a.status != 200 {
			err = fmt.Errorf("PUT %s: %d %s", path, a.status, a.body)
		}
		c.acked[key] = ack{kind: "print", id: spool, spool: spool, weight: weight, at: time.Now()}
		return err
	case n < 6:
		deduction := map[string]any{"weight_grams": grams, "reason": key}
		_, err := c.write(key, "/api/v1/spools/"+spool+"/deduct", deduction, 200,
			ack{kind: "deduct", id: spool, spool: spool, weight: weight})
		if err == nil && rand.IntN(4) == 0 {
			err = c.reverse(key, spool, weight)
		}
		return err
	case n < 7:
		return c.create(key)
	case n < 8 && rand.IntN(2) == 0:
		return c.order(key)
	case n < 8:
		return c.pieces(key)
	}
	body := map[string]any{"notes": key + "-run"}
	run, err := c.write(key+"-run", "/api/v1/production-runs", body, 201, ack{kind: "run"})
	if err != nil {
		return err
	}
	path := "/api/v1/production-runs/" + run.id
	body = map[string]any{"spool_id": spool, "spool_weight_before_grams": grams, "spool_weight_after_grams": 0}
	if _, err := c.write(key+"-material", path+"/materials", body, 201, ack{kind: "material"}); err != nil {
		return err
	}
	ends := []string{"complete", "fail", "cancel"}
	bodies := map[string]any{"complete": nil, "fail": map[string]any{"reason": "power_failure"}, "cancel": nil}
	kind := ends[max(0, rand.IntN(4)-1)] // half of them complete
	end := ack{kind: kind, id: run.id, spool: spool, weight: weight}
	if _, err := c.write(key+"-"+kind, path+"/"+kind, bodies[kind], 200, end); err != nil {
		return err
	}
	if rand.IntN(4) == 0 { // the correction takes back a part of the use
		less := value.Decimal(rand.IntN(int(weight)))
		body := map[string]any{"reason": key, "materials": []any{
			map[string]any{"spool_id": spool, "actual_weight_grams": json.Number((weight - less).String())}}}
		if _, err := c.write(key+"-correct", path+"/correct", body, 200,
			ack{kind: "correct", id: run.id, spool: spool, weight: -less}); err != nil {
			return err
		}
	}
	if rand.IntN(8) > 0 {
		return nil
	}
	kind = ends[rand.IntN(3)]
	again, err := c.send("POST", path+"/"+kind, key+"-again", bodies[kind], nil)
	if err == nil && again.status != 400 {
		err = fmt.Errorf("%s of a run that has ended: %d %s, want 400", kind, again.status, again.body)
	}
	return err
}

// create creates a spool and reads it.
func (c *rigClient) create(key string) error {
	spool, err := c.write(key, "/api/v1/spools", rigSpool(key), 201, ack{kind: "create"})
	if err != nil {
		return err
	}
	a, err := c.send("GET", "/api/v1/spools/"+spool.id, "", nil, nil)
	if err == nil && (a.status != 200 || !bytes.Contains(a.body, []byte(`"notes":"`+key+`"`))) {
		err = fmt.Errorf("the new spool %s is not returned: %d %s", key, a.status, a.body)
	}
	return err
}

// reverse reverses the deduction with the key, unless others have made a hundred deductions from the spool since.
func (c *rigClient) reverse(key, spool string, weight value.Decimal) error {
	path := "/api/v1/spools/" + spool + "/usage"
	a, err := c.send("GET", path+"?kind=deducted&limit=100", "", nil, nil)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct{ ID, Reason string }
	}
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		return fmt.Errorf("GET %s: %d %s", path, a.status, a.body)
	}
	for _, entry := range list.Items {
		if entry.Reason != key {
			continue
		}
		key += "-reverse"
		_, err := c.write(key, path+"/"+entry.ID+"/reverse", map[string]any{"reason": key}, 200,
			ack{kind: "reverse", spool: spool, weight: -weight})
		a := c.acked[key]
		a.id = spool // as that of a deduction
		c.acked[key] = a
		return err
	}
	return nil
}

// message sends messages about an order of the shop, each until it is acknowledged: the order, and half of the time
// another quantity.
func (c *rigClient) message(key string) error {
	updated := time.Now()
	for range 1 + rand.IntN(2) {
		updated = updated.Add(time.Minute)
		quantity := 1 + rand.IntN(1000)
		c.writes.Add(1)
		a, err := c.send("POST", c.shop, key, rigMessage(key, updated, quantity), nil)
		if err == nil && a.status != 200 {
			err = fmt.Errorf("POST %s: %d %s", c.shop, a.status, a.body)
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.messages[key] = quantity
		c.mu.Unlock()
	}
	return nil
}

// rigMessage is a message of the shop about an order.
func rigMessage(reference string, updated time.Time, quantity int) map[string]any {
	return map[string]any{"id": reference, "reference": reference, "updated_at": updated, "lines": []any{
		map[string]any{"id": "1", "title": "Part", "sku": "PART", "quantity": quantity},
		map[string]any{"id": "2", "title": "Unknown", "quantity": 1}}}
}

// order creates an order, adds an item, and prints one of its items in a run, which makes the order in_production.
func (c *rigClient) order(key string) error {
	items := []map[string]any{{"product_id": c.product}, {"product_id": c.product, "quantity": 2}}
	order, err := c.write(key, "/api/v1/orders", map[string]any{"source": "shop", "reference": key, "items": items}, 201,
		ack{kind: "order"})
	if err != nil {
		return err
	}
	item, err := c.write(key+"-item", "/api/v1/orders/"+order.id+"/items", map[string]any{"product_id": c.product}, 201,
		ack{kind: "item"})
	if err != nil {
		return err
	}
	_, err = c.write(key+"-run", "/api/v1/production-runs",
		map[string]any{"notes": key + "-run", "status": "in_progress",
			"items": []map[string]any{{"product_id": c.product, "order_item_id": item.id}}}, 201, ack{kind: "run"})
	return err
}

// pieces counts, adjusts or assembles pieces, or creates an order and delivers it.
func (c *rigClient) pieces(key string) error {
	var err error
	switch rand.IntN(4) {
	case 0:
		_, err = c.write(key, "/api/v1/products/"+c.counted+"/count",
			map[string]any{"counted": rand.IntN(1000), "reason": key}, 200, ack{kind: "pieces"})
	case 1:
		_, err = c.write(key, "/api/v1/products/"+c.product+"/adjust",
			map[string]any{"pieces": 1 + rand.IntN(9), "reason": key}, 200, ack{kind: "pieces"})
	case 2:
		_, err = c.write(key, "/api/v1/products/"+c.kit+"/assemble",
			map[string]any{"quantity": 1, "reason": key}, 200, ack{kind: "assemble"})
	default:
		var order ack
		items := []map[string]any{{"product_id": c.product, "quantity": 2}}
		order, err = c.write(key, "/api/v1/orders",
			map[string]any{"source": "pieces", "reference": key, "items": items}, 201, ack{kind: "order"})
		if err == nil {
			_, err = c.write(key+"-deliver", "/api/v1/orders/"+order.id+"/deliver", map[string]any{}, 200,
				ack{kind: "deliver", id: order.id})
		}
	}
	return err
}

// report sends a report as printers do: without a key, until it is acknowledged.
func (c *rigClient) report(spool string, weight value.Decimal) error {
	c.writes.Add(1)
	add := func(grams map[string]value.Decimal) {
		c.mu.Lock()
		defer c.mu.Unlock()
		grams[spool] += weight
	}
	path := fmt.Sprintf("/spoolman/api/v1/spool/%d/use", c.numbers[spool])
	a, err := c.send("PUT", path, "", map[string]any{"use_weight": json.Number(weight.String())},
		func() { add(c.uncertain) })
	if err == nil && a.status != 200 {
		err = fmt.Errorf("PUT %s: %d %s", path, a.status, a.body)
	}
	if err == nil {
		add(c.reported)
	}
	return err
}

// verify compares the database with the acknowledged writes. The URL is that of the superuser.
func (r *rig) verify(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(t.Context())
	count := func(sql string) (n int) {
		t.Helper()
		check(t, conn.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	for _, at := range r.instances {
		select {
		case <-at.process.Load().exited:
			t.Fatalf("the instance %s has exited", at.name)
		default:
		}
	}
	errors := 0
	report := func(format string, args ...any) {
		t.Helper()
		if errors++; errors <= 20 {
			t.Errorf(format, args...)
		}
	}

	// Each row contains the key of its write, except for run_materials. Each acknowledged write must have one row,
	// and each row an acknowledged write.
	left := maps.Clone(r.acked) // writes whose row was not found yet
	byRun := map[string]string{}
	used := map[string]value.Decimal{}
	for key, a := range r.acked {
		used[a.spool] += a.weight
		if endsRun("/" + a.kind) {
			byRun[a.id] = key
		}
	}
	take := func(key, id string) {
		t.Helper()
		a, ok := left[key]
		if !ok {
			if _, known := r.acked[key]; known {
				report("the write %s was applied twice", key)
			} else {
				report("the write %q was applied, but not acknowledged", key)
			}
			return
		}
		if a.id != id {
			report("the write %s: the response has the id %s, the database %s", key, a.id, id)
		}
		delete(left, key)
	}
	stream := func(sql string, each func(a, b, c string, n int64)) {
		t.Helper()
		rows, err := conn.Query(t.Context(), sql)
		check(t, err)
		var a, b, c string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&a, &b, &c, &n}, func() error { each(a, b, c, n); return nil })
		check(t, err)
	}
	for key, a := range left { // the ledger of a run has the sum of its end and its correction
		if a.kind == "correct" {
			end := r.acked[byRun[a.id]]
			end.weight += a.weight
			r.acked[byRun[a.id]] = end
			delete(left, key)
		}
	}
	stream(`
		select kind, coalesce(reason, run_id::text), spool_id::text, sum(-spool_usage.change_grams * 1000000)::bigint
		from spool_usage where kind in ('deducted', 'run', 'wasted')
		group by run_id, case when run_id is null then id end, 1, 2, 3`,
		func(kind, key, spool string, weight int64) {
			id := spool
			if kind != "deducted" {
				id = key
				if key = byRun[key]; key == "" {
					report("run %s has ended, but this was not acknowledged", id)
					return
				}
			}
			if a := r.acked[key]; kind == "wasted" != (a.kind == "fail" || a.kind == "cancel") {
				report("the write %s: the ledger has the kind %s, acknowledged was %s", key, kind, a.kind)
			}
			if a := r.acked[key]; a.spool != spool || int64(a.weight) != weight {
				report("the write %s: the ledger has %d millionths of spool %s, acknowledged were %d of %s",
					key, weight, spool, a.weight, a.spool)
			}
			take(key, id)
		})
	stream(`
		select 'spool', notes, id::text, 0 from spools where notes <> 'start'
		union all select 'file', name, id::text, 0 from products where file_sha256 is not null
		union all select 'run', notes, id::text, 0 from production_runs
		union all select 'order', reference, id::text, 0 from orders where source <> '`+rigShop+`'
		union all (select distinct on (o.id) 'item', o.reference || '-item', i.id::text, 0
			from orders o join order_items i on i.order_id = o.id where o.source = 'shop'
			order by o.id, i.created_at desc)
		union all select 'pieces', reason, id::text, 0 from piece_entries
			where kind in ('corrected', 'counted') and reason <> 'start'
		union all select 'assemble', e.reason, '', 0 from piece_entries e join products p on p.id = e.product_id
			where e.kind = 'assembled' and p.name = 'Kit'
		union all select 'deliver', o.reference || '-deliver', o.id::text, 0
			from piece_entries e join orders o on o.id = e.order_id where e.kind = 'delivered'`,
		func(_, key, id string, _ int64) { take(key, id) })
	if n := count(`
		select count(*) from orders o
		where o.source = 'shop' and (status <> 'in_production'
			or (select sum(quantity) from order_items i where i.order_id = o.id) <> 4
			or (select count(*) from order_items i join run_items r on r.order_item_id = i.id where i.order_id = o.id) <> 1)`,
	); n != 0 {
		report("%d orders do not have their items, their run and its status", n)
	}
	if n := count(`
		select count(*) from orders o join order_items i on i.order_id = o.id
		where o.source = 'pieces' and (o.status = 'done') <> (i.delivered = 2)`); n != 0 {
		report("%d orders are done without their pieces, or the reverse", n)
	}
	stream(`select reference, status, (select count(*) from order_lines l where l.order_id = o.id)::text, (select
			sum(quantity) from order_items i where i.order_id = o.id)
		from orders o where source = '`+rigShop+`'`,
		func(reference, status, lines string, quantity int64) {
			if want := r.messages[reference]; int(quantity) != want || status != "received" || lines != "2" {
				report("the order %s of the shop is %s with %d pieces and %s lines, acknowledged were %d", reference, status,
					quantity, lines, want)
			}
			delete(r.messages, reference)
		})
	for reference := range r.messages {
		report("the order %s of the shop was acknowledged, but is lost", reference)
	}
	if n := count(`
		select count(*) from product_pieces s
			join (select product_id, sum(pieces) as pieces from piece_entries group by 1) e on e.product_id = s.product_id
		where s.on_hand <> e.pieces`); n != 0 {
		report("the stock of %d products differs from their ledgers", n)
	}
	if n := count(`
		select count(*) from (
			select sum(pieces) filter (where p.name = 'Kit') as made, -sum(pieces) filter (where p.name = 'Part') as used
			from piece_entries e join products p on p.id = e.product_id
			where e.kind = 'assembled' or e.assembly_id is not null group by e.assembly_id) a
		where used is distinct from 2 * made`); n != 0 {
		report("%d assemblies have not used two parts for each kit", n)
	}
	materials := map[string]bool{}
	stream(`select '', '', id::text, 0 from run_materials`, func(_, _, id string, _ int64) { materials[id] = true })
	acked := 0
	for key, a := range left {
		switch {
		case a.kind == "material" && materials[a.id]:
			acked++
			delete(left, key)
		case a.kind == "print": // an entry of the ledger has several; the remaining weights show each of them
			delete(left, key)
		}
	}
	if acked != len(materials) {
		report("%d materials exist, %d were acknowledged", len(materials), acked)
	}
	for key, a := range left {
		report("the write %s (%s) was acknowledged at %v, but is lost", key, a.kind, a.at.UTC().Format(time.StampMilli))
	}
	if n := count(`select count(*) from idempotency_keys where status between 200 and 201`); n != len(r.acked) {
		report("%d keys are stored, %d writes were acknowledged", n, len(r.acked))
	}
	if n := count(`select count(*) from idempotency_keys where status is null or status > 201`); n != 0 {
		report("%d keys are stored without a success", n)
	}

	// Remaining weights agree with the ledgers and with the acknowledged writes.
	if n := count(`
		select count(*) from spools s
			left join (select spool_id, sum(spool_usage.change_grams) as grams from spool_usage group by 1) u
				on u.spool_id = s.id
		where s.remaining_weight_grams is distinct from u.grams`); n != 0 {
		report("%d spools differ from their ledgers", n)
	}
	if n := count(`select count(*) from spool_usage u where not valid_usage(u)`); n != 0 {
		report("%d entries of ledgers are not valid", n)
	}
	const untouched = `select count(*) from spools where notes <> 'start' and remaining_weight_grams <> ` +
		rigNetGrams
	if n := count(untouched); n != 0 {
		report("%d spools without deductions have another weight than at first", n)
	}
	full, _ := value.ParseDecimal(rigNetGrams)
	for i, spool := range r.spools {
		answer := r.instances[i%len(r.instances)].process.Load().get(t, r.token, "/api/v1/spools/"+spool)
		var remaining string
		const query = `select trim_scale(remaining_weight_grams)::text from spools where id = $1`
		check(t, conn.QueryRow(t.Context(), query, spool).Scan(&remaining))
		want := full - used[spool] - r.reported[spool]
		least := want - r.uncertain[spool]
		left, ok := value.ParseDecimal(remaining)
		if !ok || left > want || left < least {
			report("spool %s has %s g left, want %v to %v after the acknowledged writes", spool, remaining, least,
				want)
			continue
		}
		want = left
		shown, ok := value.ParseDecimal(fmt.Sprintf("%.6f", answer["remaining_weight_grams"]))
		if !ok || shown != want {
			report("GET returns spool %s with %v g, want %v", spool, answer["remaining_weight_grams"], want)
		}
	}

	// Requests that are repeated now get the same response, and have no effect.
	client := &rigClient{rig: r}
	entries, repeated := count(`select count(*) from spool_usage`), 0
	for key, a := range r.acked {
		if a.response == nil || repeated == rigRepeats {
			continue
		}
		repeated++
		again, err := client.send("POST", a.path, key, a.body, nil)
		check(t, err)
		if again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.body, a.response) {
			report("%s, repeated: %d %s, want the replay of %s", key, again.status, again.body, a.response)
		}
	}
	if n := count(`select count(*) from spool_usage`); n != entries || repeated == 0 {
		report("%d repeated requests added %d ledger entries, want some requests and 0 entries", repeated, n-entries)
	}
	last, err := client.send("POST", "/api/v1/spools", value.NewID(), rigSpool("end"), nil)
	if err != nil || last.status != 201 {
		report("a new write: %d %s %v", last.status, last.body, err)
	}
	t.Logf("%d writes, %d reads, %d answers 503, %d requests without an answer, %d replays",
		r.writes.Load(), r.reads.Load(), r.unavailable.Load(), r.unanswered.Load(), r.replays.Load())
}
