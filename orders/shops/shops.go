// Package shops follows the orders of shops: Shopify, WooCommerce, and any other that sends a small JSON. A shop sends
// its webhooks to the address of its connection. The farm's order follows from all messages together, whatever the
// order in which they arrive.
package shops

import (
	"context"
	_ "embed"
	"encoding/base64"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

//go:embed fields.md
var fields string

// Service has the operations of /api/v1/shops, and receives the messages of shops.
type Service struct {
	db    *db.DB
	vault webhooks.Vault
	now   func() time.Time
}

// New returns a Service. The first secret encrypts the secrets of connections; all of them decrypt.
func New(d *db.DB, secrets []string, now func() time.Time) *Service {
	return &Service{d, webhooks.NewVault(secrets), now}
}

var tag = &server.Tag{
	Name: "shops", Fields: fields,
	Description: "Connections to shops, which deliver orders automatically. For admins; API keys are rejected. A " +
		"shop sends its webhooks to `POST /shops/{id}/events`, outside of the API: `address` is this path. The " +
		"service checks the signature of the body, and answers 401 `INVALID_SIGNATURE` if it is wrong. Messages may " +
		"come twice, late and in any order: the newest one determines the order. An order with an unknown SKU is " +
		"accepted; see `assignOrderLine`.",
}

// Routes returns the operations.
func (s *Service) Routes() []server.Route {
	const path, one = " /api/v1/shops", " /api/v1/shops/{id}"
	return []server.Route{
		server.Op("GET"+path, server.Admin, server.HandleList[Shop](s.db, Filter.list), listDoc).ForUsers(),
		server.Op("POST"+path, server.Admin, server.Handle(s.create), createDoc).ForUsers(),
		server.Op("GET"+one, server.Admin, server.HandleGet[Shop](s.db, read), getDoc).ForUsers().Versioned(
			server.LockRow("shops")),
		server.Op("PATCH"+one, server.Admin, server.Handle(s.update), updateDoc).ForUsers(),
		server.Op("DELETE"+one, server.Admin, server.Handle(s.remove), removeDoc).ForUsers(),
		server.Op("POST"+one+"/rotate", server.Admin, server.Handle(s.rotate).OptionalBody(), rotateDoc).ForUsers(),
	}
}

// Kind is a kind of shop.
type Kind string

// Enum returns all kinds.
func (Kind) Enum() []string { return []string{"shopify", "woocommerce", "generic"} }

// Shop is a connection without its secret.
type Shop struct {
	ID         value.UUID             `json:"id" rule:"readOnly,notNull"`
	Kind       value.Optional[Kind]   `json:"kind" rule:"required,named=ShopKind"`
	Name       value.Optional[string] `json:"name" rule:"required"`
	Address    string                 `json:"address" rule:"readOnly,notNull,unsorted"`
	ReceivedAt value.Timestamp        `json:"received_at" rule:"readOnly"`
	RefusedAt  value.Timestamp        `json:"refused_at" rule:"readOnly"`
	CreatedAt  value.Timestamp        `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt  value.Timestamp        `json:"updated_at" rule:"readOnly,notNull"`
}

// ShopSecret is a connection with its secret, in the responses to creating it and to rotating its secret.
type ShopSecret struct {
	Shop
	Secret string `json:"secret" rule:"secret"`
}

// ShopCreation is the body of a request to create a connection.
type ShopCreation struct {
	Kind   value.Optional[Kind]   `json:"kind" rule:"required,named=ShopKind"`
	Name   value.Optional[string] `json:"name" rule:"required"`
	Secret value.Optional[string] `json:"signing_secret"`
}

// ShopChange is the body of a PATCH. The kind cannot change, because stored messages have its form.
type ShopChange struct {
	ID         value.UUID             `json:"id" rule:"readOnly,notNull"`
	Kind       Kind                   `json:"kind" rule:"readOnly,notNull,named=ShopKind"`
	Name       value.Optional[string] `json:"name" rule:"notNull"`
	Address    string                 `json:"address" rule:"readOnly,notNull"`
	ReceivedAt value.Timestamp        `json:"received_at" rule:"readOnly"`
	RefusedAt  value.Timestamp        `json:"refused_at" rule:"readOnly"`
	CreatedAt  value.Timestamp        `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt  value.Timestamp        `json:"updated_at" rule:"readOnly,notNull"`
}

// SecretChange is the body of a rotation.
type SecretChange struct {
	Secret value.Optional[string] `json:"signing_secret"`
}

const columns = `id, kind, name, '/shops/' || id || '/events' as address, received_at, refused_at, created_at,
	updated_at`

func read(id string) *db.Stmt { return db.SQL(`select `+columns+` from shops where id = $1`, id) }

var listDoc = &server.Doc{
	ID: "listShops", Tag: tag, Summary: "List connections to shops",
	Description: "Returns all connections of the tenant, without their secrets.",
}

// Filter are the parameters of the list of connections.
type Filter struct {
	Kind value.Optional[Kind] `query:"kind" rule:"named=ShopKind"`
}

func (f Filter) list() *server.List {
	l := server.NewList(`(select tenant_id, `+columns+` from shops) shops`,
		`id, kind, name, address, received_at, refused_at, created_at, updated_at`, "", "")
	l.WhereEqual("kind", f.Kind)
	return l
}

var getDoc = &server.Doc{
	ID: "getShop", Tag: tag, Summary: "Get a connection to a shop",
	Description: "Returns a connection, without its secret.",
}

// maxShops is the maximum number of connections of a tenant.
const maxShops = 20

var errLimit = server.Conflict("SHOP_LIMIT", "A tenant can have %d connections to shops", maxShops)

// errDuplicate rejects the name of another connection: orders of the two shops with equal numbers could not be kept
// apart.
var errDuplicate = server.Conflict("DUPLICATE_SHOP", "Another connection has the name %s", "dragons.example").
	On("name")

// sameName is a condition for the connections with the name $2, without regard to case.
const sameName = `lower(name collate "und-x-icu") = lower($2 collate "und-x-icu")`

var createDoc = &server.Doc{
	ID: "createShop", Tag: tag, Summary: "Connect a shop",
	Description: "Returns the connection with its secret in `secret`, once: the service stores it encrypted. For the " +
		"same reason, a response that is repeated for an `Idempotency-Key` has an empty `secret`. Without " +
		"`signing_secret`, the service makes a secret, to be entered in the shop. Shopify makes its own secret and shows " +
		"it below its list of webhooks: connect first, enter the address there, and send Shopify's secret with " +
		"`rotateShop`. A tenant can have 20 connections. The `name` must be unique, without regard to case " +
		"(`DUPLICATE_SHOP`). `docs/shops.md` describes the setup of each shop.",
	Request: `{"kind":"woocommerce","name":"dragons.example"}`,
	Errors:  []*server.Error{errDuplicate, errLimit},
}

func (s *Service) create(ctx context.Context, r *server.Request[ShopCreation]) (server.Created[ShopSecret], error) {
	secret, err := newSecret(r.In.Secret, string(*r.In.Kind.Value))
	if err != nil {
		return nil, err
	}
	id := value.NewID()
	var full bool
	check := db.SQL(`select count(*) >= $1 from shops`, maxShops).Into(&full)
	shop := db.SQL(`
		insert into shops (id, kind, name, secret)
		select $1, $4, $2, $3
		where (select count(*) from shops) < $5 and not exists (select from shops where `+sameName+`)
		returning `+columns,
		id, r.In.Name.Arg(), s.vault.Seal(db.ActorOf(ctx).Tenant, id, []byte(secret)), string(*r.In.Kind.Value), maxShops)
	if err := s.db.Write(ctx, db.Lock("shops"), check, shop,
		db.SQL(`select shop_claim(id)::text from shops where id = $1`, id)); err != nil {
		return nil, err
	}
	switch {
	case full:
		return nil, errLimit
	case shop.Rows() == 0:
		return nil, errDuplicate.With(r.In.Name.Or(""))
	}
	return withSecret(shop.Object(), secret), nil
}

// secretPrefix begins a secret of Standard Webhooks. Base64 follows.
const secretPrefix = "whsec_"

// newSecret returns the secret of a request for a kind of shop, or a new one.
func newSecret(sent value.Optional[string], kind string) (string, error) {
	secret := sent.Or("")
	if secret == "" {
		return webhooks.NewSecret(), nil
	}
	if len(secret) < 16 || strings.ContainsFunc(secret, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
	}) {
		return "", server.Invalid("signing_secret", "must have 16 or more letters, digits and signs, and no blanks or "+
			"quotes")
	}
	if kind == "generic" && signingKey(kind, secret) == nil {
		return "", server.Invalid("signing_secret", "must be %s and 16 or more bytes in Base64", secretPrefix)
	}
	return secret, nil
}

// signingKey returns the key of signatures, or nil if the secret does not have the form for the kind of shop.
func signingKey(kind, secret string) []byte {
	if kind != "generic" {
		return []byte(secret)
	}
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 16 {
		return nil
	}
	return key
}

func withSecret(shop []byte, secret string) []byte {
	return append(append(shop[:len(shop)-1:len(shop)-1], `,"secret":"`+secret...), `"}`...)
}

var updateDoc = &server.Doc{
	ID: "updateShop", Tag: tag, Summary: "Rename a connection to a shop",
	Description: "The `name` is the `source` of orders that come later. Existing orders keep theirs, and continue to " +
		"follow the shop. The name must be unique, without regard to case (`DUPLICATE_SHOP`).",
	Request: `{"name":"dragons.example"}`,
	Errors:  []*server.Error{errDuplicate},
}

func (s *Service) update(ctx context.Context, r *server.Request[ShopChange]) (server.OK[Shop], error) {
	id, name := r.ID("id"), r.In.Name.Arg()
	var named bool
	check := db.SQL(`select name is distinct from $2 and exists (select from shops where id <> $1 and `+sameName+`)
		from shops where id = $1`, id, name).Into(&named)
	shop := db.SQL(`
		update shops s set name = coalesce($2, name), updated_at = case when $2 is null then updated_at else now() end
		where id = $1 and (name = $2 or not exists (select from shops where id <> $1 and `+sameName+`))
		returning `+columns, id, name)
	err := s.db.Write(ctx, db.Lock("shops"), check, shop)
	if err == nil && named {
		return nil, errDuplicate.With(r.In.Name.Or(""))
	}
	return server.One(shop, err)
}

var removeDoc = &server.Doc{
	ID: "deleteShop", Tag: tag, Summary: "Disconnect a shop",
	Description: "Further messages to the address of the connection are rejected. Its orders stay, but no longer " +
		"follow the shop.",
}

func (s *Service) remove(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	id := r.ID("id")
	locked := db.SQL(`select id from shops where id = $1 for update`, id)
	return nil, server.Found(locked, s.db.Write(ctx, locked, db.SQL(`delete from shop_orders where shop_id = $1`, id),
		db.SQL(`delete from shops where id = $1`, id), db.SQL(`select shop_drop($1)::text`, id)))
}

var rotateDoc = &server.Doc{
	ID: "rotateShop", Tag: tag, Summary: "Change the secret of a connection to a shop",
	Description: "Sets the secret to `signing_secret`, which the shop has made, or to a new one, and returns it " +
		"once. For 24 hours, messages signed with the previous secret are also accepted.",
	Request: `{"signing_secret":"whsec_MDEyMzQ1Njc4OWFiY2RlZg=="}`,
}

func (s *Service) rotate(ctx context.Context, r *server.Request[SecretChange]) (server.OK[ShopSecret], error) {
	id, tenant := r.ID("id"), db.ActorOf(ctx).Tenant
	var kind string
	var secret string
	found := db.SQL(`select kind from shops where id = $1 for no key update`, id).Into(&kind)
	var rotated *db.Stmt
	err := s.db.Decide(ctx, []*db.Stmt{found}, func() (_ []*db.Stmt, err error) {
		if err := server.Found(found, nil); err != nil {
			return nil, err
		}
		if secret, err = newSecret(r.In.Secret, kind); err != nil {
			return nil, err
		}
		rotated = db.SQL(`
			update shops set secret = $2, previous_secret = secret, previous_until = now() + interval '24 hours',
				updated_at = now()
			where id = $1 returning `+columns, id, s.vault.Seal(tenant, id, []byte(secret)))
		return []*db.Stmt{rotated}, nil
	})
	if err != nil {
		return nil, err
	}
	return withSecret(rotated.Object(), secret), nil
}
