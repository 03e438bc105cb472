package spoolman

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"spoolwright/db"
)

// item names a spool, a filament, a vendor or a setting.
type item struct{ resource, id string }

// state identifies a version of an item.
type state struct {
	at     string
	hidden bool
}

// hub holds the open sockets of this instance, and sends changes to them.
type hub struct {
	db   *db.DB
	wake chan bool     // receives a value when this instance has changed an item
	pace *rate.Limiter // the limit for large messages

	mu      sync.Mutex
	closed  bool
	tenants map[string]*audience
	perKey  map[string]int  // the number of sockets of each user or API key
	dirty   map[string]bool // the tenants with changes by this instance that no poll has read yet
}

// audience holds the sockets of a tenant.
type audience struct {
	sockets map[*socket]bool
	seen    map[item]state // the items that changed recently, as the last poll read them; nil before the first poll
	removed map[item]bool  // the items whose removal the hub sent at once, without a poll
	missed  bool           // whether a poll found too many changed items to read
	visited bool           // whether a visit is in progress
	slow    bool           // whether the last visit took longer than waitFor
}

func newHub(d *db.DB) *hub {
	return &hub{db: d, wake: make(chan bool, 1), pace: rate.NewLimiter(largeRate, largeBurst),
		tenants: map[string]*audience{}, perKey: map[string]int{}, dirty: map[string]bool{}}
}

// add adds a socket. It returns false if the hub is closed, or if the user or API key has maxPerKey sockets already.
func (h *hub) add(s *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.caller.ID()
	if h.closed || h.perKey[key] >= maxPerKey {
		return false
	}
	h.perKey[key]++
	a := h.tenants[s.caller.Tenant]
	if a == nil {
		a = &audience{sockets: map[*socket]bool{}, removed: map[item]bool{}}
		h.tenants[s.caller.Tenant] = a
	}
	a.sockets[s] = true
	return true
}

func (h *hub) remove(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key := s.caller.ID(); h.perKey[key] == 1 {
		delete(h.perKey, key)
	} else {
		h.perKey[key]--
	}
	a := h.tenants[s.caller.Tenant]
	if delete(a.sockets, s); len(a.sockets) == 0 {
		delete(h.tenants, s.caller.Tenant)
	}
}

// close closes all sockets and makes add reject new sockets.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, a := range h.tenants {
		for s := range a.sockets {
			s.end(websocket.StatusGoingAway)
		}
	}
}

// checkCallers returns a statement that checks the callers of a tenant's sockets, and a function that closes the
// sockets of those who are no longer allowed to read. The function needs the statement's result.
func (h *hub) checkCallers(tenant string) (check *db.Stmt, end func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[db.Actor]bool{}
	var callers []db.Actor
	if a := h.tenants[tenant]; a != nil {
		for s := range a.sockets {
			if !known[s.caller] {
				known[s.caller] = true
				callers = append(callers, s.caller)
			}
		}
	}
	check = db.Refused(tenant, callers)
	return check, func() error {
		var refused []struct{ N int }
		if err := json.Unmarshal(check.Array(), &refused); err != nil {
			return err
		}
		for _, r := range refused {
			h.endAll(tenant, websocket.StatusPolicyViolation, func(s *socket) bool { return s.caller == callers[r.N] })
		}
		return nil
	}
}

// check closes the sockets of a tenant whose callers are no longer allowed to read.
func (h *hub) check(ctx context.Context, tenant string) error {
	check, end := h.checkCallers(tenant)
	if err := h.db.Read(db.As(ctx, db.Actor{Tenant: tenant}), check); err != nil {
		return err
	}
	return end()
}

// endAll closes those sockets of a tenant that match.
func (h *hub) endAll(tenant string, code websocket.StatusCode, match func(*socket) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.tenants[tenant]; a != nil {
		for s := range a.sockets {
			if match(s) {
				s.end(code)
			}
		}
	}
}

// messageOf returns the message about an item. payload is the JSON of the item.
func messageOf(kind, resource string, payload []byte) []byte {
	return slices.Concat([]byte(`{"type":"`+kind+`","resource":"`+resource+`","date":"`+
		time.Now().UTC().Format(time.RFC3339)+`","payload":`), payload, []byte("}"))
}

// broadcast sends a message about an item to those sockets of the tenant whose topic and item match it. The callers
// must have been checked since the item was read.
func (h *hub) broadcast(tenant string, it item, message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.tenants[tenant]; a != nil {
		for s := range a.sockets {
			if s.topic == "" || s.topic == it.resource && (s.item == "" || s.item == it.id) {
				s.send(message)
			}
		}
	}
}

// broadcastNow is broadcast for a change that no poll finds. If the callers cannot be checked, it closes the sockets
// instead: the clients connect again and read the lists.
func (h *hub) broadcastNow(ctx context.Context, tenant string, it item, message []byte) {
	h.mu.Lock()
	watched := h.tenants[tenant] != nil
	h.mu.Unlock()
	if !watched {
		return
	}
	if h.check(ctx, tenant) != nil {
		h.endAll(tenant, websocket.StatusTryAgainLater, func(*socket) bool { return true })
		return
	}
	h.broadcast(tenant, it, message)
}

// removed notifies the sockets of this instance that an item was deleted. payload is the JSON of the item.
func (h *hub) removed(ctx context.Context, tenant, resource string, number int64, payload []byte) {
	it := item{resource, strconv.FormatInt(number, 10)}
	h.mu.Lock()
	if a := h.tenants[tenant]; a != nil {
		a.removed[it] = true // the next poll finds a hidden item too, and must not send its removal again
	}
	h.mu.Unlock()
	h.broadcastNow(ctx, tenant, it, messageOf("deleted", resource, payload))
}

// changedSetting notifies the sockets of this instance that a setting has changed. setting is the JSON of the setting.
func (h *hub) changedSetting(ctx context.Context, tenant, key string, setting []byte) {
	payload := slices.Concat([]byte(`{"key":"`+key+`","setting":`), setting, []byte("}"))
	h.broadcastNow(ctx, tenant, item{"setting", key}, messageOf("updated", "setting", payload))
}

func (h *hub) notify(tenant string) {
	h.dirty[tenant] = true
	select {
	case h.wake <- true:
	default:
	}
}

// changed starts a poll of the tenant after wakeDelay, without waiting for the next regular poll.
func (h *hub) changed(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenants[tenant] != nil {
		h.notify(tenant)
	}
}
