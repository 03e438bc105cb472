// Package webhooks sends events to the HTTPS receivers of tenants, signed as Standard Webhooks specifies. Features
// insert events and their deliveries as rows in the transaction that causes the event (emit.sql). A dispatcher in each
// instance sends the deliveries, and repeats a delivery until the receiver accepts it or the schedule ends.
package webhooks

import (
	"cmp"
	"context"
	"crypto/x509"
	"embed"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/value"
	"spoolwright/value/language"
)

var (
	//go:embed fields.md
	fields string
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of events. Other packages call event_webhooks, event_time and emit_event.
var Definitions = db.Definitions("webhooks", functions, "emit")

// EventType is a type of events.
type EventType string

// Enum returns all declared types.
func (EventType) Enum() []string { return slices.Sorted(maps.Keys(declared)) }

// Subscription is a type of events, all types of a group such as order.*, or * for all types.
type Subscription string

// Enum returns all types, their groups, and *.
func (Subscription) Enum() []string {
	all := map[string]bool{"*": true}
	for name := range declared {
		group, _, _ := strings.Cut(name, ".")
		all[name], all[group+".*"] = true, true
	}
	return slices.Sorted(maps.Keys(all))
}

var declared = map[string]bool{}

// Declare makes webhooks accept the types of a feature's events, and returns the events. A package calls Declare to
// initialize its variable Events.
func Declare(events ...server.Event) []server.Event {
	for _, e := range events {
		declared[e.Type] = true
	}
	return events
}

// testEvent is the type of the events of the operation testWebhook. Every webhook gets these events.
const testEvent = "webhook.test"

// Events are the events of this package, for the OpenAPI document. Each feature has its own list of events.
var Events = []server.Event{{
	Type: testEvent, Tag: tag, Summary: "Test of a webhook",
	Description: "Sent by `testWebhook`, to one webhook, whatever its `events` are.", Data: reflect.TypeFor[Test](),
}}

// Config configures a Service. Only DB and Secrets are required.
type Config struct {
	DB              *db.DB
	Secrets         []string       // the first secret encrypts the secrets of webhooks, all decrypt them
	AllowedNetworks []netip.Prefix // private networks that receivers may be in, also without TLS
	Version         string         // of the program, for the User-Agent
	PublicURL       string         // the address of the farm, with which links in messages begin, or ""
	Mail            *mail.Sender   // nil if there is no mail server
	Log             *slog.Logger

	// Tests set the following fields. A zero field has the default.
	Resolver *net.Resolver
	Roots    *x509.CertPool
	Schedule []time.Duration // the pauses between tries; see schedule
	Active   int             // webhooks that the instance works on at a time
	Timeout  time.Duration   // of a try
	Poll     time.Duration   // the longest pause between two polls of the queue
	Lease    time.Duration   // of a webhook, in whole seconds; workers renew it after a third of this time
	Grace    time.Duration   // the time for running tries to end when the service stops
}

// Service has the operations of /api/v1/webhooks and the dispatcher.
type Service struct {
	Config
	keys   keys
	sender *sender
	first  chan struct{} // limits the concurrent first transactions of workers
	emails chan struct{} // limits the e-mails that are being sent

	mu     sync.Mutex
	active map[*worker]struct{}
	warned time.Time // when the service last warned of receivers that hang

	metrics tries
}

// New returns a Service. Its dispatcher starts when Run is called.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Schedule == nil {
		c.Schedule = schedule
	}
	c.Active = cmp.Or(c.Active, maxActive)
	c.Timeout = cmp.Or(c.Timeout, tryTimeout)
	c.Poll = cmp.Or(c.Poll, 2*time.Second)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	return &Service{
		Config: c, keys: newKeys(c.Secrets), sender: newSender(c), first: make(chan struct{}, c.DB.BackgroundSlots()),
		emails: make(chan struct{}, maxSending), active: map[*worker]struct{}{},
	}
}

var tag = &server.Tag{
	Name: "webhooks", Fields: fields,
	Description: "URLs that get events of the tenant, signed as [Standard " +
		"Webhooks](https://www.standardwebhooks.com) specifies, or as messages of a chat or e-mails. For admins; API keys " +
		"are rejected. An event is " +
		"stored in the transaction of its cause, so that none is lost, and sent at least once, in no particular " +
		"order. `webhook-id` identifies repetitions. A status from 200 to 299 within 15 seconds is a success; " +
		"redirects are not followed. After a failure the service tries again after 5 seconds, 5 and 30 minutes, " +
		"and 2, 5, 10, 14, 20 and 24 hours, or later if `Retry-After` demands it (up to 24 hours). The status 410, or " +
		"five days with nothing but failures, disables the webhook.",
}

// Routes returns the operations.
func (s *Service) Routes() []server.Route {
	const path, one = " /api/v1/webhooks", " /api/v1/webhooks/{id}"
	const sent, delivery = one + "/deliveries", one + "/deliveries/{delivery_id}"
	return []server.Route{
		server.Op("GET"+path, server.Admin, server.HandleList[Webhook](s.DB, Filter.list), listDoc).ForUsers(),
		server.Op("POST"+path, server.Admin, server.Handle(s.create), createDoc).ForUsers(),
		server.Op("GET"+one, server.Admin, server.HandleGet[Webhook](s.DB, readWebhook), getDoc).ForUsers().
			Versioned(server.LockRow("webhooks")),
		server.Op("PATCH"+one, server.Admin, server.Handle(s.update), updateDoc).ForUsers(),
		server.Op("DELETE"+one, server.Admin, server.Handle(s.remove), removeDoc).ForUsers(),
		server.Op("POST"+one+"/test", server.Admin, server.Handle(s.test), testDoc).ForUsers(),
		server.Op("POST"+one+"/rotate", server.Admin, server.Handle(s.rotate), rotateDoc).ForUsers(),
		server.Op("GET"+sent, server.Admin, server.HandleListOf[Delivery](s.DB,
			`select id from webhooks where id = $1`, DeliveryQuery.list), listDeliveriesDoc).ForUsers(),
		server.Op("GET"+delivery, server.Admin, server.Handle(s.getDelivery), getDeliveryDoc).ForUsers(),
		server.Op("POST"+delivery+"/redeliver", server.Admin, server.Handle(s.redeliver), redeliverDoc).ForUsers(),
	}
}

// Webhook is a webhook without its secret.
type Webhook struct {
	ID             value.UUID                              `json:"id" rule:"readOnly,notNull"`
	URL            value.Optional[string]                  `json:"url" rule:"required,maxLength=2000,format=uri"`
	Format         value.Optional[Format]                  `json:"format" rule:"notNull"`
	Token          value.Optional[string]                  `json:"token" rule:"writeOnly,maxLength=150"`
	Events         value.Optional[value.Set[Subscription]] `json:"events" rule:"required"`
	Daily          value.Optional[bool]                    `json:"daily" rule:"notNull"`
	Description    value.Optional[string]                  `json:"description"`
	Disabled       value.Optional[bool]                    `json:"disabled" rule:"notNull"`
	DisabledAt     value.Timestamp                         `json:"disabled_at" rule:"readOnly"`
	DisabledReason string                                  `json:"disabled_reason" rule:"readOnly,enum=gone|failing"`
	FailingSince   value.Timestamp                         `json:"failing_since" rule:"readOnly"`
	CreatedAt      value.Timestamp                         `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt      value.Timestamp                         `json:"updated_at" rule:"readOnly,notNull"`
}

// WebhookSecret is a webhook with its secret, the response to creating a webhook or rotating its secret.
type WebhookSecret struct {
	Webhook
	Secret string `json:"secret" rule:"secret"`
}

// columns selects the fields of a Webhook.
const columns = `id, url, format, array_to_json(events) as events, daily, description,
	disabled_at is not null as disabled, disabled_at, disabled_reason, failing_since, created_at, updated_at`

// withSecret adds the secret to the JSON of a Webhook. PostgreSQL gets only the encrypted secret.
func withSecret(webhook []byte, secret []byte) []byte {
	return append(withoutEnd(webhook), `,"secret":"`+encodeSecret(secret)+`"}`...)
}

// withoutEnd returns a JSON object without its last brace. It has no spare capacity, so append copies it.
func withoutEnd(object []byte) []byte { return object[: len(object)-1 : len(object)-1] }

var listDoc = &server.Doc{
	ID: "listWebhooks", Tag: tag, Summary: "List webhooks",
	Description: "Returns all webhooks of the tenant, without their secrets.",
}

// Filter are the parameters of the list of webhooks.
type Filter struct {
	Event    value.Optional[EventType] `query:"event" rule:"named="`
	Disabled value.Optional[bool]      `query:"disabled"`
}

func (f Filter) list() *server.List {
	l := server.NewList(`(select tenant_id, `+columns+` from webhooks) webhooks`,
		`id, url, format, events, daily, description, disabled,
		disabled_at, disabled_reason, failing_since, created_at, updated_at`, "", "")
	if !f.Event.IsNull() {
		l.Where("?::text in (select json_array_elements_text(events))", f.Event.Arg())
	}
	l.WhereEqual("disabled", f.Disabled)
	return l
}

var getDoc = &server.Doc{
	ID: "getWebhook", Tag: tag, Summary: "Get a webhook",
	Description: "Returns a webhook, without its secret.",
}

func readWebhook(id string) *db.Stmt {
	return db.SQL(`select `+columns+` from webhooks where id = $1`, id)
}

// maxWebhooks is the maximum number of webhooks of a tenant.
const maxWebhooks = 10

var (
	errLimit    = server.Conflict("WEBHOOK_LIMIT", "A tenant can have %d webhooks", maxWebhooks)
	errDisabled = server.Conflict("WEBHOOK_DISABLED", "The webhook is disabled; enable it first")
	errUnsigned = server.Conflict("WEBHOOK_UNSIGNED", "Only a webhook of the format standard has a secret to rotate")
)

var createDoc = &server.Doc{
	ID: "createWebhook", Tag: tag, Summary: "Create a webhook",
	Description: "Returns the webhook with its secret in `secret`, which verifies the signatures. This is the only " +
		"response with the secret: the service stores it encrypted. For the same reason, a response that is " +
		"repeated for an `Idempotency-Key` has an empty `secret`; if the first response was lost, rotate the " +
		"secret. The URL must be https. Its host must have a public address at every delivery, unless the operator " +
		"of the service allows the network. A tenant can have 10 webhooks.\n\n" +
		"With a `format` other than `standard`, the receiver is a chat or a notification service, and gets each " +
		"event as one sentence with a link to the page that shows it. Such requests have no signature, and " +
		"`secret` is empty. With the format `email`, the URL is `mailto:` and the address of a user of the tenant who " +
		"has set a password and is not disabled, and the service needs a mail server.",
	Errors: []*server.Error{errLimit}, Events: true,
	Request: `{"url":"https://hooks.farm.example/spoolwright","events":["production_run.completed"],` +
		`"description":"Shop floor display"}`,
}

func (s *Service) create(ctx context.Context, r *server.Request[Webhook]) (server.Created[WebhookSecret], error) {
	format, token := r.In.Format.Or(Standard), r.In.Token.Or("")
	if err := s.check(*r.In.URL.Value, format, token, r.In.Daily.Or(false)); err != nil {
		return nil, err
	}
	id, secret := value.NewID(), []byte(token)
	if format == Standard {
		secret = newSecret()
	}
	webhook := db.SQL(`
		insert into webhooks (id, url, events, description, secret, disabled_at, format, daily)
		select $1, $2, $3::text[], $4, $5, case when $6::boolean then now() end, $8, $9
		where (select count(*) from webhooks) < $7
			and ($8 <> 'email' or exists (select from users u where `+isRecipient("substr($2, 8)")+`))
		returning `+columns,
		id, r.In.URL.Arg(), r.In.Events.Arg(), r.In.Description.Arg(), s.keys.seal(db.ActorOf(ctx).Tenant, id, secret),
		r.In.Disabled.Or(false), maxWebhooks, string(format), r.In.Daily.Or(false))
	stmts := []*db.Stmt{db.Lock("webhooks"), webhook}
	mayGet := true
	if format == Email {
		stmts = append(stmts, readRecipient(*r.In.URL.Value, &mayGet))
	}
	if err := s.DB.Write(ctx, stmts...); err != nil {
		return nil, err
	}
	switch {
	case webhook.Rows() > 0:
	case !mayGet:
		return nil, errRecipient
	default:
		return nil, errLimit
	}
	if format != Standard {
		return append(withoutEnd(webhook.Object()), `,"secret":""}`...), nil
	}
	return withSecret(webhook.Object(), secret), nil
}

// check returns an error unless a webhook of the format can have the URL, the token ("" is none) and the value of
// daily.
func (s *Service) check(text string, format Format, token string, daily bool) error {
	if token != "" && !format.hasToken() {
		return server.Invalid("token", "must be empty: only the formats gotify and ntfy have one")
	}
	if problem := checkToken(token); problem != "" {
		return server.Invalid("token", "%s", problem)
	}
	if format == Email {
		return s.checkEmail(text)
	}
	if daily {
		return server.Invalid("daily", "must be false: only webhooks of the format email can be daily")
	}
	if problem := s.checkURL(text, format, token); problem != "" {
		return server.Invalid("url", "%s", problem)
	}
	return nil
}

// checkURL returns the problem with the URL of a webhook, or "".
func (s *Service) checkURL(text string, format Format, token string) string {
	u, err := url.Parse(text)
	plain := len(s.AllowedNetworks) > 0
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || strings.ContainsAny(text, " \t"):
		return language.Sprintf("must be an absolute URL such as https://farm.example/hooks")
	case u.Scheme != "https" && !(plain && u.Scheme == "http"):
		return language.Sprintf("must be an https URL")
	case u.User != nil:
		return language.Sprintf("must not contain a user name or password")
	case u.Fragment != "":
		return language.Sprintf("must not contain a fragment")
	}
	if problem := checkPort(u.Port()); problem != "" {
		return problem
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if !isAllowed(addr, u.Scheme == "https", s.AllowedNetworks) {
			return language.Sprintf("must not name a private, local or special address")
		}
	} else if problem := checkHost(u.Hostname()); problem != "" {
		return problem
	} else if !plain && isLocal(u.Hostname()) {
		return language.Sprintf("must not name a host of a private network")
	}
	if check := formats[format].check; check != nil {
		return check(u, token)
	}
	return ""
}

var updateDoc = &server.Doc{
	ID: "updateWebhook", Tag: tag, Summary: "Update a webhook",
	Description: "Changes the URL, the token, the events, the description, and whether the webhook is daily or " +
		"disabled. A disabled webhook gets no events, and its pending deliveries fail; enable it to redeliver them. The " +
		"format and the secret stay.",
	Request: `{"events":["production_run.completed"],"description":"Shop floor display"}`,
}

func (s *Service) update(ctx context.Context, r *server.Request[Webhook]) (server.OK[Webhook], error) {
	id, in := r.ID("id"), &r.In
	tenant := db.ActorOf(ctx).Tenant
	var url, format string
	var sealed []byte
	before := db.SQL(`select url, format, secret from webhooks where id = $1 for no key update`, id).
		Into(&url, &format, &sealed)
	reads := []*db.Stmt{before}
	var mayGet bool
	if in.URL.Set {
		reads = append(reads, readRecipient(*in.URL.Value, &mayGet))
	}
	webhook := db.SQL(`select `+columns+` from webhooks where id = $1`, id)
	err := s.DB.Decide(ctx, reads, func() ([]*db.Stmt, error) {
		if before.Rows() == 0 {
			return nil, server.ErrNotFound
		}
		if in.Format.Set && *in.Format.Value != Format(format) {
			return nil, server.Invalid("format", "cannot be changed: create another webhook")
		}
		var secret any // nil: it stays
		if in.Token.Set || in.URL.Set || in.Daily.Or(false) {
			token := in.Token.Or("")
			if !in.Token.Set && Format(format).hasToken() {
				opened, _, err := s.keys.open(tenant, id, sealed)
				if err == nil { // otherwise the URL is checked as without a token
					token = string(opened)
				}
			}
			if err := s.check(in.URL.Or(url), Format(format), token, in.Daily.Or(false)); err != nil {
				return nil, err
			}
			if Format(format) == Email && in.URL.Set && !mayGet {
				return nil, errRecipient
			}
			if in.Token.Set && Format(format).hasToken() {
				secret = s.keys.seal(tenant, id, []byte(token))
			}
		}
		stmts := []*db.Stmt{s.change(id, in, secret), webhook}
		if in.Disabled.Or(false) {
			stmts = append(stmts, wake(id)) // to end the pending deliveries
		}
		return stmts, nil
	})
	return server.One(webhook, err)
}

// change returns the statement that changes a webhook. The secret stays if it is nil.
func (s *Service) change(id string, in *Webhook, secret any) *db.Stmt {
	return db.SQL(`
		update webhooks w set
			url = coalesce($2::text, w.url),
			events = coalesce($3::text[], w.events),
			description = case when $4::boolean then $5::text else w.description end,
			disabled_at = case when $6::boolean is null then w.disabled_at
				when $6::boolean then coalesce(w.disabled_at, now()) end,
			disabled_reason = case when $6::boolean is distinct from false then w.disabled_reason end,
			failing_since = case when $6::boolean is distinct from false then w.failing_since end,
			secret = coalesce($7::bytea, w.secret),
			daily = coalesce($8::boolean, w.daily),
			updated_at = now()
		where w.id = $1`,
		id, in.URL.Arg(), in.Events.Arg(), in.Description.Set, in.Description.Arg(), in.Disabled.Arg(), secret,
		in.Daily.Arg())
}

// wake returns a statement that makes a webhook due for the dispatcher.
func wake(id string) *db.Stmt { return db.SQL(`select queue_add(array[$1]::uuid[])::text`, id) }

var removeDoc = &server.Doc{
	ID: "deleteWebhook", Tag: tag, Summary: "Delete a webhook",
	Description: "Deletes the webhook and its deliveries.",
}

func (s *Service) remove(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	remove := db.SQL(`delete from webhooks where id = $1 returning id`, r.ID("id"))
	return nil, server.Found(remove, s.DB.Write(ctx, remove, db.SQL(`
		select queue_add(array[d.webhook_id])::text from webhook_deliveries d where d.webhook_id = $1 limit 1`,
		r.ID("id"))))
}

var rotateDoc = &server.Doc{
	ID: "rotateWebhook", Tag: tag, Summary: "Rotate the secret of a webhook",
	Description: "Replaces the secret and returns the new one in `secret`, once, as after the creation. For 24 " +
		"hours, each request has two signatures: one with the new and one with the previous secret. Only webhooks " +
		"of the format `standard` have a secret.",
	Errors: []*server.Error{errUnsigned},
}

func (s *Service) rotate(ctx context.Context, r *server.Request[struct{}]) (server.OK[WebhookSecret], error) {
	id, secret := r.ID("id"), newSecret()
	var format string
	found := db.SQL(`select format from webhooks where id = $1`, id).Into(&format)
	rotated := db.SQL(`
		update webhooks set secret = $2, previous_secret = secret, previous_until = now() + interval '24 hours',
			updated_at = now()
		where id = $1 and format = 'standard' returning `+columns, id, s.keys.seal(db.ActorOf(ctx).Tenant, id, secret))
	err := server.Found(found, s.DB.Write(ctx, found, rotated))
	if err == nil && Format(format) != Standard {
		err = errUnsigned
	}
	webhook, err := server.One(rotated, err)
	if err != nil {
		return nil, err
	}
	return withSecret(webhook, secret), nil
}
