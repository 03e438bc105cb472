package auth

import (
	"context"
	"time"

	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

var keysTag = &server.Tag{
	Name: "api-keys", Fields: fields,
	Description: "Keys for scripts, integrations and printers, which cannot log in. For admins. A key belongs to " +
		"the tenant, not to a person: it works until it expires or is revoked, also when its creator is disabled. " +
		"Send it as `X-API-Key`, without an `Authorization` header. Operations below `/auth`, `/users`, " +
		"`/api-keys` and `/webhooks` reject keys, except `getCurrentApiKey`.",
}

// keyRoutes returns the operations of /api/v1/api-keys.
func (s *Service) keyRoutes() []server.Route {
	const path, one = " /api/v1/api-keys", " /api/v1/api-keys/{id}"
	return []server.Route{
		server.Op("GET"+path, server.Admin,
			server.HandleList[AccessKey](s.db, KeyFilter.list), listKeysDoc).ForUsers(),
		server.Op("POST"+path, server.Admin, server.Handle(s.createKey), createKeyDoc).ForUsers(),
		server.Op("GET"+path+"/current", server.Read, server.Handle(s.currentKey), currentKeyDoc).ForKeys(),
		server.Op("GET"+one, server.Admin,
			server.HandleGet[AccessKey](s.db, readKey), getKeyDoc).ForUsers().Versioned(server.LockRow("api_keys")),
		server.Op("PATCH"+one, server.Admin, server.Handle(s.updateKey), updateKeyDoc).ForUsers(),
		server.Op("DELETE"+one, server.Admin, server.Handle(s.revokeKey), revokeKeyDoc).ForUsers(),
		server.Op("POST"+one+"/rotate", server.Admin, server.Handle(s.rotateKey).OptionalBody(),
			rotateKeyDoc).ForUsers(),
	}
}

// KeyRole determines which operations an API key may call.
type KeyRole string

// Enum returns all roles.
func (KeyRole) Enum() []string { return []string{"viewer", "operator", "printer", "watcher"} }

// AccessKey is an API key without its secret.
type AccessKey struct {
	ID         value.UUID                      `json:"id" rule:"readOnly,notNull"`
	Name       value.Optional[string]          `json:"name" rule:"required"`
	Role       value.Optional[KeyRole]         `json:"role" rule:"required,named="`
	PrinterID  value.Optional[value.UUID]      `json:"printer_id"`
	Hint       string                          `json:"hint" rule:"readOnly,notNull"`
	CreatedBy  value.UUID                      `json:"created_by" rule:"readOnly"`
	CreatedAt  value.Timestamp                 `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt  value.Timestamp                 `json:"updated_at" rule:"readOnly,notNull"`
	ExpiresAt  value.Optional[value.Timestamp] `json:"expires_at"`
	LastUsedAt value.Timestamp                 `json:"last_used_at" rule:"readOnly"`
	RevokedAt  value.Timestamp                 `json:"revoked_at" rule:"readOnly"`
}

// AccessKeySecret is an API key with its secret, the response to creating or rotating a key.
type AccessKeySecret struct {
	AccessKey
	Key string `json:"key" rule:"secret"`
}

// Rotation is the body of a rotation.
type Rotation struct {
	GraceHours value.Optional[int64] `json:"grace_hours" rule:"notNull,maximum=168"`
}

// keyColumns selects the fields of an AccessKey.
const keyColumns = `id, name, role, printer_id, hint, created_by, created_at, updated_at, expires_at,
	last_used_at, revoked_at`

// withSecret adds a secret to the JSON of an object. PostgreSQL gets only the hash of the secret.
func withSecret(object []byte, name, secret string) []byte {
	return append(object[:len(object)-1:len(object)-1], `,"`+name+`":"`+secret+`"}`...)
}

var listKeysDoc = &server.Doc{
	ID: "listApiKeys", Tag: keysTag, Summary: "List API keys",
	Description: "Returns all keys of the tenant, including expired and revoked keys, without their secrets.",
}

// KeyFilter are the parameters of the list of API keys.
type KeyFilter struct {
	Name      value.Optional[string]             `query:"name"`
	Role      value.Optional[value.Set[KeyRole]] `query:"role" rule:"named="`
	PrinterID value.Optional[value.UUID]         `query:"printer_id"`
	Revoked   value.Optional[bool]               `query:"revoked"`
}

func (f KeyFilter) list() *server.List {
	l := server.NewList("api_keys", keyColumns, "", "")
	l.WhereText(`lower(name collate "und-x-icu") collate "C"`, f.Name)
	l.WhereOneOf("role", f.Role)
	l.WhereEqual("printer_id", f.PrinterID)
	l.WhereEqual("(revoked_at is not null)", f.Revoked)
	return l
}

var getKeyDoc = &server.Doc{
	ID: "getApiKey", Tag: keysTag, Summary: "Get an API key",
	Description: "Returns a key of the tenant, without its secret.",
}

func readKey(id string) *db.Stmt {
	return db.SQL(`select `+keyColumns+` from api_keys where id = $1`, id)
}

// CurrentKey is the API key of a request, for its holder.
type CurrentKey struct {
	ID          value.UUID            `json:"id" rule:"notNull"`
	Name        string                `json:"name" rule:"notNull"`
	Role        KeyRole               `json:"role" rule:"notNull"`
	TenantID    value.UUID            `json:"tenant_id" rule:"notNull"`
	TenantName  string                `json:"tenant_name" rule:"notNull"`
	PrinterID   value.UUID            `json:"printer_id"`
	PrinterName string                `json:"printer_name"`
	ExpiresAt   value.Timestamp       `json:"expires_at"`
	PerMinute   value.Optional[int64] `json:"requests_per_minute" rule:"readOnly"`
	PerHour     value.Optional[int64] `json:"requests_per_hour" rule:"readOnly"`
}

var currentKeyDoc = &server.Doc{
	ID: "getCurrentApiKey", Tag: keysTag, Summary: "Get the API key of the request",
	Description: "Returns what a key may do, so that a program can test it. Requires an API key of any role, also of a " +
		"printer. The limits are those of `X-RateLimit-Limit`; all keys and users of a tenant share another limit.",
}

func (s *Service) currentKey(ctx context.Context, r *server.Request[struct{}]) (server.OK[CurrentKey], error) {
	key := db.SQL(`
		select k.id, k.name, k.role, k.tenant_id,
			(select t.name from tenants t where t.tenant_id = k.tenant_id) as tenant_name, k.printer_id,
			p.name as printer_name, k.expires_at,
			nullif($2::int, 0) as requests_per_minute, nullif($3::int, 0) as requests_per_hour
		from api_keys k left join printers p on p.id = k.printer_id
		where k.id = $1`, db.ActorOf(ctx).APIKey, r.Limits.PerMinute, r.Limits.PerHour)
	if err := s.db.Read(ctx, key); err != nil {
		return nil, err
	}
	return key.Object(), nil
}

// MaxKeys is the maximum number of API keys of a tenant. Revoked keys do not count.
const MaxKeys = 500

var (
	errKeyLimit = server.Conflict("API_KEY_LIMIT",
		"A tenant can have %d API keys; revoke one that is not in use", MaxKeys)
	errUnknownPrinter = server.BadRequest("UNKNOWN_REFERENCE", "printer_id is not the id of a printer").On("printer_id")
	errKeyRevoked     = server.Conflict("API_KEY_REVOKED", "The API key is revoked; create a new one")
)

var createKeyDoc = &server.Doc{
	ID: "createApiKey", Tag: keysTag, Summary: "Create an API key",
	Description: "Returns the key with its secret in `key`. This is the only response with the secret: the service " +
		"stores its SHA-256 hash. For the same reason, a response that is repeated for an `Idempotency-Key` has an " +
		"empty `key`; if the first response was lost, rotate the key to get a new secret. A tenant can have 500 " +
		"keys, without revoked keys.\n\n" +
		"A key with the role `printer` can belong to a printer: the usage ledger and reports attribute its reports to " +
		"that printer. If the printer has one slot, the spool of a report is loaded into it.",
	Errors: []*server.Error{errKeyLimit, errUnknownPrinter},
}

func (s *Service) createKey(
	ctx context.Context, r *server.Request[AccessKey],
) (server.Created[AccessKeySecret], error) {
	if err := CheckExpiry(r.In.ExpiresAt, s.now()); err != nil {
		return nil, err
	}
	if !r.In.PrinterID.IsNull() && r.In.Role.Or("") != "printer" {
		return nil, errPrinterRole
	}
	return InsertKey(ctx, s.db, &r.In)
}

// CheckExpiry returns a 422 if the expiry of a new key is not in the future.
func CheckExpiry(at value.Optional[value.Timestamp], now time.Time) error {
	if !at.IsNull() && !at.Value.After(now) {
		return server.Invalid("expires_at", "must be in the future")
	}
	return nil
}

var errPrinterRole = server.Invalid("printer_id", "requires the role printer")

// printer returns a subquery that selects the printer with the id, unless the printer is hidden. The subquery locks
// the printer, so that no other transaction can remove it before this transaction ends.
func printer(id string) string {
	return `(select p.id from printers p where p.id = ` + id + ` and p.hidden_at is null for key share)`
}

// InsertKey inserts an API key into the context's tenant. If the context has a user, the user is the creator of the
// key. It returns the key with its secret, as JSON. The error is errKeyLimit if the tenant has too many keys.
func InsertKey(ctx context.Context, d *db.DB, in *AccessKey) ([]byte, error) {
	id, secret := value.NewID(), secrets.NewKey()
	hash := []byte(secrets.KeyHash(secret))
	var user any
	if actor := db.ActorOf(ctx); actor.User != "" {
		user = actor.User
	}
	key := db.SQL(`
		insert into api_keys (id, name, role, hint, hash, expires_at, created_by, printer_id)
		select $1, $2, $3, $4, $5, $6::timestamptz, $7::uuid, $9::uuid
		where (select count(*) from api_keys where revoked_at is null) < $8
			and ($9::uuid is null or exists (select from printers where id = $9::uuid and hidden_at is null))
		returning `+keyColumns,
		id, in.Name.Arg(), in.Role.Arg(), secrets.KeyHint(secret), hash, in.ExpiresAt.Arg(), user, MaxKeys,
		in.PrinterID.Arg())
	found := db.SQL(`select id from `+printer("$1::uuid")+` p`, in.PrinterID.Arg())
	claim := db.SQL(`select key_claim($2, id)::text from api_keys where id = $1`, id, hash)
	if err := d.Write(ctx, db.Lock("api_keys"), found, key, claim); err != nil {
		return nil, err
	}
	if !in.PrinterID.IsNull() && found.Rows() == 0 {
		return nil, errUnknownPrinter
	}
	if key.Rows() == 0 {
		return nil, errKeyLimit
	}
	return withSecret(key.Object(), "key", secret), nil
}

var updateKeyDoc = &server.Doc{
	ID: "updateApiKey", Tag: keysTag, Summary: "Update an API key",
	Description: "Changes the name, the printer, or when the key expires: `null` means never, and a time in the " +
		"past ends the key at once. `role` cannot be changed; its current value is accepted. A revoked key stays " +
		"revoked. Reports of a key stay with the printer that it belonged to at that time.",
	Errors:  []*server.Error{errUnknownPrinter},
	Request: `{"name":"Label printer","expires_at":"2035-06-30T00:00:00Z"}`,
}

func (s *Service) updateKey(ctx context.Context, r *server.Request[AccessKey]) (server.OK[AccessKey], error) {
	id, in := r.ID("id"), &r.In
	var sameRole, printerRole, printerFound bool
	change := db.SQL(`
		with target as (
			select k.id, $5::text is null or k.role = $5 as same_role, $7::uuid is null or k.role = 'printer' as printer_role,
				$7::uuid is null or k.printer_id is not distinct from $7::uuid or exists `+printer("$7::uuid")+` as printer_found
			from api_keys k where k.id = $1
		), changed as (
			update api_keys k set
				name = coalesce($2::text, k.name),
				expires_at = case when $3::boolean then $4::timestamptz else k.expires_at end,
				printer_id = case when $6::boolean then $7::uuid else k.printer_id end,
				updated_at = now()
			from target t where k.id = t.id and t.same_role and t.printer_role and t.printer_found
		)
		select same_role, printer_role, printer_found from target`,
		id, in.Name.Arg(), in.ExpiresAt.Set, in.ExpiresAt.Arg(), in.Role.Arg(), in.PrinterID.Set,
		in.PrinterID.Arg()).Into(&sameRole, &printerRole, &printerFound)
	key := readKey(id)
	if err := server.Found(change, s.db.Write(ctx, change, key)); err != nil {
		return nil, err
	}
	switch {
	case !sameRole:
		return nil, server.Invalid("role", "cannot be changed: create a new key and revoke this one")
	case !printerRole:
		return nil, errPrinterRole
	case !printerFound:
		return nil, errUnknownPrinter
	}
	return key.Object(), nil
}

var rotateKeyDoc = &server.Doc{
	ID: "rotateApiKey", Tag: keysTag, Summary: "Rotate an API key",
	Description: "Replaces the secret of the key and returns the new secret in `key`, once, as after its creation. " +
		"The previous secret stays valid for `grace_hours`, so that clients can change to the new one without a " +
		"gap. A second rotation ends the secret before the previous one. The expiry of the key does not change.",
	Errors: []*server.Error{errKeyRevoked},
}

// defaultGrace is the default of Rotation.GraceHours.
const defaultGrace = 24

func (s *Service) rotateKey(ctx context.Context, r *server.Request[Rotation]) (server.OK[AccessKeySecret], error) {
	id, secret := r.ID("id"), secrets.NewKey()
	hash := []byte(secrets.KeyHash(secret))
	grace := time.Duration(r.In.GraceHours.Or(defaultGrace)) * time.Hour
	rotated := db.SQL(`
		update api_keys set
			hash = $2, hint = $3, previous_hash = hash, previous_until = now() + make_interval(secs => $4),
			updated_at = now()
		where id = $1 and revoked_at is null returning `+keyColumns, id, hash, secrets.KeyHint(secret), grace.Seconds())
	exists := db.SQL(`select id from api_keys where id = $1`, id)
	err := s.db.Write(ctx,
		// The row lock serializes rotations, so that each rotation drops the hash that it replaces.
		db.SQL(`select id from api_keys where id = $1 for no key update`, id),
		db.SQL(`select key_drop(previous_hash)::text from api_keys where id = $1`, id),
		rotated,
		db.SQL(`select key_claim($2, id)::text from api_keys where id = $1 and hash = $2`, id, hash),
		exists)
	switch {
	case err != nil:
		return nil, err
	case exists.Rows() == 0:
		return nil, server.ErrNotFound
	case rotated.Rows() == 0:
		return nil, errKeyRevoked
	}
	return withSecret(rotated.Object(), "key", secret), nil
}

var revokeKeyDoc = &server.Doc{
	ID: "revokeApiKey", Tag: keysTag, Summary: "Revoke an API key",
	Description: "Ends the key at once and permanently. It stays in the list, because the usage ledger refers to it.",
}

func (s *Service) revokeKey(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	revoke := RevokeKey(r.ID("id"))
	return nil, server.Found(revoke[0], s.db.Write(ctx, revoke...))
}

// RevokeKey returns the statements that revoke a key. The first one returns the key's name if the key exists.
func RevokeKey(id string) []*db.Stmt {
	return []*db.Stmt{
		db.SQL(`update api_keys set revoked_at = coalesce(revoked_at, now()),
			updated_at = case when revoked_at is null then now() else updated_at end where id = $1
			returning name`, id),
		db.SQL(`select key_drop(hash)::text, key_drop(previous_hash)::text as previous from api_keys where id = $1`,
			id),
	}
}
