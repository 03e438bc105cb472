package auth

import (
	"context"
	"errors"
	"slices"
	"strings"

	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

var usersTag = &server.Tag{
	Name: "users", Fields: fields,
	Description: "The users of the tenant and their roles. For admins.",
}

// userRoutes returns the operations of /api/v1/users and the operation that changes the caller's own password.
func (s *Service) userRoutes() []server.Route {
	return []server.Route{
		server.Op("POST /api/v1/auth/password", server.Read, server.Handle(s.changePassword), changePasswordDoc).
			WithoutKey().ForUsers(),
		server.Op("GET /api/v1/users", server.Admin,
			server.HandleList[UserAccount](s.db, UserFilter.list), listUsersDoc).ForUsers(),
		server.Op("POST /api/v1/users", server.Admin, server.HandlePrepared(s.hashNew, s.createUser), createUserDoc).
			ForUsers(),
		server.Op("GET /api/v1/users/{id}", server.Admin,
			server.HandleGet[UserAccount](s.db, readUser), getUserDoc).ForUsers().
			Versioned(func(...string) []*db.Stmt { return []*db.Stmt{lockUsers()} }),
		server.Op("PATCH /api/v1/users/{id}", server.Admin, server.Handle(s.updateUser), updateUserDoc).ForUsers(),
		server.Op("DELETE /api/v1/users/{id}", server.Admin, server.Handle(s.deleteUser), deleteUserDoc).ForUsers(),
		server.Op("POST /api/v1/users/{id}/password-link", server.Admin, server.Handle(s.createPasswordLink).OptionalBody(),
			createPasswordLinkDoc).ForUsers(),
		server.Op("DELETE /api/v1/users/{id}/otp", server.Admin, server.Handle(s.resetOTP), resetOTPDoc).ForUsers(),
	}
}

// UserAccount is a user as admins of the tenant see and change it.
type UserAccount struct {
	ID       value.UUID               `json:"id" rule:"readOnly,notNull"`
	Email    value.Optional[string]   `json:"email" rule:"required,format=email,maxLength=320"`
	Name     value.Optional[string]   `json:"name" rule:"required"`
	Role     value.Optional[Role]     `json:"role" rule:"required"`
	Language value.Optional[Language] `json:"language" rule:"unsorted"`
	Disabled value.Optional[bool]     `json:"disabled" rule:"notNull"`
	Password value.Optional[string]   `json:"password" rule:"notNull,writeOnly,maxLength=200,minLength=10"`
	Send     value.Optional[bool]     `json:"send" rule:"notNull,writeOnly"`
	Invited  bool                     `json:"invited" rule:"readOnly,notNull"`
	OTP      bool                     `json:"otp_enabled" rule:"readOnly,notNull"`
	SignOn   bool                     `json:"sign_on" rule:"readOnly,notNull"`
	// The last e-mail with a password link.
	LinkEmail      value.Optional[string]          `json:"link_email" rule:"readOnly,unsorted,enum=waiting|sent|refused,named=LinkEmailState"`
	LinkEmailAt    value.Optional[value.Timestamp] `json:"link_email_at" rule:"readOnly,unsorted"`
	LinkEmailError value.Optional[string]          `json:"link_email_error" rule:"readOnly,unsorted"`
	CreatedAt      value.Timestamp                 `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt      value.Timestamp                 `json:"updated_at" rule:"readOnly,notNull"`
}

// Check applies CheckPassword. A password must not be blank. A name must be one line, because e-mails contain it.
func (u *UserAccount) Check(problems *server.Problems) {
	if n := u.Name; !n.IsNull() && strings.ContainsFunc(*n.Value, breaksLine) {
		problems.Add("name", "must be one line without control characters")
	}
	if p := u.Password; !p.IsNull() && strings.TrimSpace(*p.Value) == "" {
		problems.Add("password", "must not be blank")
		return
	}
	checkNewPassword(problems, "password", u.Password)
}

func checkNewPassword(problems *server.Problems, field string, password value.Optional[string]) {
	if !password.IsNull() {
		if err := secrets.CheckPassword(*password.Value); err != nil {
			problems.Add(field, "%s", err)
		}
	}
}

// userColumns selects the fields of a UserAccount.
const userColumns = `id, email, name, role, language, disabled_at is not null as disabled, ` +
	invitedColumn + `, otp_at is not null as otp_enabled, sign_on_subject is not null as sign_on, ` + linkEmailColumns +
	`, created_at, updated_at`

// invitedColumn selects whether a user has never been able to sign in.
const invitedColumn = `password_hash = '' and sign_on_subject is null as invited`

// linkEmailColumns selects, for a row of users, the fields about the last e-mail with a link.
const linkEmailColumns = `
	(select case when e.next_try_at is not null then 'waiting' when e.error is null then 'sent' else 'refused' end
		from link_emails e where e.tenant_id = users.tenant_id and e.user_id = users.id) as link_email,
	(select coalesce(e.ended_at, e.requested_at) from link_emails e
		where e.tenant_id = users.tenant_id and e.user_id = users.id) as link_email_at,
	(select e.error from link_emails e where e.tenant_id = users.tenant_id and e.user_id = users.id) as link_email_error`

var listUsersDoc = &server.Doc{
	ID: "listUsers", Tag: usersTag, Summary: "List users",
	Description: "Returns all users of the tenant, including disabled users.",
}

// UserFilter are the parameters of the list of users.
type UserFilter struct {
	Email    value.Optional[string]          `query:"email" rule:"maxLength=320,trim"`
	Role     value.Optional[value.Set[Role]] `query:"role"`
	Disabled value.Optional[bool]            `query:"disabled"`
}

func (f UserFilter) list() *server.List {
	l := server.NewList(`(
			select *, disabled_at is not null as disabled, `+invitedColumn+`, otp_at is not null as otp_enabled,
				sign_on_subject is not null as sign_on, `+linkEmailColumns+` from users
		) users`, "id, email, name, role, language, disabled, invited, otp_enabled, sign_on, link_email, link_email_at, "+
		"link_email_error, created_at, updated_at", "", "")
	l.WhereText(`lower(email collate "und-x-icu") collate "C"`, f.Email)
	l.WhereOneOf("role", f.Role)
	l.WhereEqual("disabled", f.Disabled)
	return l
}

var getUserDoc = &server.Doc{
	ID: "getUser", Tag: usersTag, Summary: "Get a user",
	Description: "Returns a user of the tenant. `GET /api/v1/auth/me` returns the caller.",
}

func (s *Service) showUser(ctx context.Context, id string) (server.OK[UserAccount], error) {
	user := readUser(id)
	return server.One(user, s.db.Read(ctx, user))
}

func readUser(id string) *db.Stmt {
	return db.SQL(`select `+userColumns+` from users where id = $1`, id)
}

var createUserDoc = &server.Doc{
	ID: "createUser", Tag: usersTag, Summary: "Create a user",
	Description: "The user can log in immediately, or, without a `password`, after it is set with a password link " +
		"(`POST /api/v1/users/{id}/password-link`). With `send`, the service sends the link by e-mail, as that " +
		"operation does. An e-mail is unique across all tenants: `EMAIL_TAKEN` does not " +
		"reveal which tenant uses it. A tenant can have 200 users, including disabled users.",
	Errors: []*server.Error{errEmailTaken, ErrUserLimit},
}

// hashNew hashes the password of a new user. It checks the caller first, so that a revoked caller cannot cause the
// work of hashing. Without a password, the hash is empty: Verify accepts no password for it.
func (s *Service) hashNew(ctx context.Context, r *server.Request[UserAccount]) (hash string, err error) {
	send := r.In.Send.Or(false)
	switch {
	case send && !s.CanSendLinks():
		return "", errNoLinkMail
	case send && !r.In.Password.IsNull():
		return "", server.Invalid("send", "cannot be true for a user with a password")
	case send && r.In.Disabled.Or(false):
		return "", server.Invalid("send", "cannot be true for a disabled user")
	case r.In.Password.IsNull():
		return "", nil
	}
	if err := s.db.CheckActor(ctx); err != nil {
		return "", err
	}
	return s.hash(ctx, *r.In.Password.Value)
}

// hash hashes a password for a request; it maps ErrBusy to a 503.
func (s *Service) hash(ctx context.Context, password string) (string, error) {
	hash, err := s.hasher.Hash(ctx, password, tenantGroup(ctx))
	if errors.Is(err, secrets.ErrBusy) {
		err = server.ErrUnavailable.Because(err)
	}
	return hash, err
}

// tenantGroup returns the hasher's group for password changes in the caller's tenant.
func tenantGroup(ctx context.Context) string { return "tenant " + db.ActorOf(ctx).Tenant }

func (s *Service) createUser(
	ctx context.Context, r *server.Request[UserAccount], hash string,
) (server.Created[UserAccount], error) {
	return InsertUser(ctx, s.db, value.NewID(), &r.In, hash)
}

// MaxUsers is the maximum number of users of a tenant. It limits the work that the logins of one tenant can cause.
const MaxUsers = 200

// InsertUser inserts a user with the id into the context's tenant and enters the e-mail in the login directory. It
// returns the user as JSON. The error is errEmailTaken if a user of any tenant has the e-mail, or ErrUserLimit.
func InsertUser(ctx context.Context, d *db.DB, id string, in *UserAccount, hash string) ([]byte, error) {
	user := db.SQL(`
		insert into users (id, email, name, role, password_hash, disabled_at, language)
		select $1, $2, $3, $4, $5, case when $6::boolean then now() end, $8::text
		where (select count(*) from users) < $7
		returning `+userColumns,
		id, in.Email.Arg(), in.Name.Arg(), in.Role.Arg(), hash, in.Disabled.Or(false), MaxUsers, in.Language.Arg())
	stmts := []*db.Stmt{lockUsers(), user}
	if in.Send.Or(false) {
		row, queue := queueLink(id, "true")
		user = readUser(id)
		stmts = append(stmts, row, queue, user)
	}
	err := WriteLogin(ctx, d, EmailKey(*in.Email.Value), id, stmts...)
	switch {
	case db.Violates(err, "login_directory_pkey"):
		return nil, errEmailTaken.With(*in.Email.Value)
	case err != nil:
		return nil, err
	case user.Rows() == 0:
		return nil, ErrUserLimit
	}
	return user.Object(), nil
}

// WriteLogin is like DB.Write for statements that insert the user with the id, and enters the user's e-mail address, in
// lower case, in the login directory. If the statements insert no user, it enters nothing. The error violates
// login_directory_pkey if another user has the address.
func WriteLogin(ctx context.Context, d *db.DB, email, id string, stmts ...*db.Stmt) error {
	return d.Write(ctx, append(slices.Clip(stmts),
		db.SQL(`select login_claim($1, id)::text from users where id = $2`, email, id))...)
}

// lockUsers returns a statement that serializes changes of the tenant's users until the transaction ends.
func lockUsers() *db.Stmt { return db.Lock("users") }

var (
	errEmailTaken = server.Conflict("EMAIL_TAKEN", "The e-mail %s is already in use", "bob@farm.example").On("email")
	ErrUserLimit  = server.Conflict("USER_LIMIT", "A tenant can have %d users, including disabled users", MaxUsers)
)

var errLastAdmin = server.Conflict("LAST_ADMIN",
	"This is the last enabled admin of the tenant; give another user the role admin first")

var updateUserDoc = &server.Doc{
	ID: "updateUser", Tag: usersTag, Summary: "Update a user",
	Description: "Changes the name, the role, the language, the password, or whether the user is disabled. A new " +
		"role and " +
		"`disabled` take effect immediately: the user's access tokens become invalid. After a change of the role, " +
		"a refresh returns a token for the new role. `disabled` and a new password end the user's sessions, so " +
		"that refresh tokens become invalid. `LAST_ADMIN` means that the change would leave the tenant without an " +
		"enabled admin who has a password or an account at the provider. `email` cannot be changed; its current value is " +
		"accepted.",
	Errors:  []*server.Error{errLastAdmin},
	Request: `{"name":"Bob Miller","role":"viewer"}`,
}

func (s *Service) updateUser(ctx context.Context, r *server.Request[UserAccount]) (server.OK[UserAccount], error) {
	id, in := r.ID("id"), &r.In
	if in.Send.Or(false) {
		return nil, server.Invalid("send", "cannot be true for an existing user: create a password link with send")
	}
	if !in.Email.Set && !in.Name.Set && !in.Role.Set && !in.Disabled.Set && !in.Password.Set && !in.Language.Set {
		return s.showUser(ctx, id)
	}
	var hash any
	otherEmail := false
	if in.Email.Set {
		holder, _, err := s.db.FindLogin(ctx, EmailKey(*in.Email.Value))
		if err != nil {
			return nil, err
		}
		otherEmail = holder.User != id
	}
	if in.Password.Set {
		if err := s.db.CheckActor(ctx); err != nil {
			return nil, err
		}
		text, err := s.hash(ctx, *in.Password.Value)
		if err != nil {
			return nil, err
		}
		hash = text
	}
	var problem *string // EMAIL or LAST_ADMIN if the change is not allowed
	change := db.SQL(`
		with target as (
			select u.id, u.role, u.disabled_at is not null as disabled,
				coalesce($3::text, u.role) as new_role, coalesce($4::boolean, u.disabled_at is not null) as new_disabled
			from users u where u.id = $1
		), checked as materialized (
			select t.*, case
				when $6::boolean then 'EMAIL'
				when t.role = 'admin' and not t.disabled and (t.new_role <> 'admin' or t.new_disabled) and not exists (
					select from users o where o.id <> t.id and o.role = 'admin' and o.disabled_at is null
						and (o.password_hash <> ''
							or o.sign_on_issuer = (select issuer from sign_on_providers)))
					then 'LAST_ADMIN'
			end as problem
			from target t
		), changed as (
			update users u set
				name = coalesce($2::text, u.name),
				role = c.new_role,
				language = case when $7::boolean then $8::text else u.language end,
				password_hash = coalesce($5::text, u.password_hash),
				link_hash = case when $5::text is null and not c.new_disabled then u.link_hash end,
				link_expires_at = case when $5::text is null and not c.new_disabled then u.link_expires_at end,
				disabled_at = case when c.new_disabled then coalesce(u.disabled_at, now()) end,
				updated_at = now()
			from checked c where u.id = c.id and c.problem is null
		), ended as (
			delete from sessions s using checked c
			where s.user_id = c.id and c.problem is null and ($5::text is not null or c.new_disabled and not c.disabled)
		)
		select problem from checked`,
		id, in.Name.Arg(), in.Role.Arg(), in.Disabled.Arg(), hash, otherEmail,
		in.Language.Set, in.Language.Arg()).Into(&problem)
	user := readUser(id)
	// The advisory lock serializes changes of users in a tenant, and the caller is checked again under the lock: if
	// two admins disable each other concurrently, one admin stays enabled. The row lock comes before the statement
	// that deletes the sessions: a concurrent login has either inserted its session by then, or sees the change and
	// fails.
	caller := db.ActorOf(ctx)
	err := s.db.Write(ctx,
		lockUsers(),
		caller.Bind(),
		db.SQL(`select id from users where id = $1 for no key update`, id),
		change, user)
	switch {
	case err != nil:
		return nil, err
	case user.Rows() == 0:
		return nil, server.ErrNotFound
	case problem != nil && *problem == "EMAIL":
		return nil, server.Invalid("email", "cannot be changed: create a new user and disable this one")
	case problem != nil:
		var fields []string
		if in.Role.Or("admin") != "admin" {
			fields = append(fields, "role")
		}
		if in.Disabled.Or(false) {
			fields = append(fields, "disabled")
		}
		return nil, errLastAdmin.On(fields...)
	}
	return user.Object(), nil
}

var deleteUserDoc = &server.Doc{
	ID: "deleteUser", Tag: usersTag, Summary: "Delete a user",
	Description: "Deletes the account and ends its sessions: access and refresh tokens become invalid immediately, " +
		"and another user can have the e-mail. The records of the user stay: the usage ledger keeps the id and the name. " +
		"API keys that the user created stay valid. `LAST_ADMIN` means that no enabled admin would remain.",
	Errors: []*server.Error{errLastAdmin},
}

func (s *Service) deleteUser(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	id, caller := r.ID("id"), db.ActorOf(ctx)
	var email string
	var last bool
	// As in updateUser, the caller is checked under the lock, and is an enabled admin with a password. So only the
	// caller can be the last admin.
	found := db.SQL(`
		select u.email, u.role = 'admin' and not exists (
			select from users o where o.id <> u.id and o.role = 'admin' and o.disabled_at is null
				and (o.password_hash <> '' or o.sign_on_issuer = (select issuer from sign_on_providers)))
		from users u where u.id = $1 for update`, id).Into(&email, &last)
	err := s.db.Decide(ctx, []*db.Stmt{
		lockUsers(), caller.Bind(), found,
	}, func() ([]*db.Stmt, error) {
		switch {
		case found.Rows() == 0:
			return nil, server.ErrNotFound
		case last:
			return nil, errLastAdmin
		}
		var stmts []*db.Stmt
		for _, s := range DeleteUser(id) {
			stmts = append(stmts, db.SQL(s.SQL, s.Args...))
		}
		return append(stmts, db.SQL(`select login_drop($1, $2)::text`, EmailKey(email), id)), nil
	})
	return nil, err
}

// DeleteUser returns the statements that delete a user and the data that belongs only to the user, except the entry of
// the login directory. The last statement deletes the user.
func DeleteUser(id string) []db.Statement {
	return []db.Statement{
		{SQL: `delete from sessions where user_id = $1`, Args: []any{id}},
		{SQL: `delete from login_addresses where user_id = $1`, Args: []any{id}},
		{SQL: `delete from link_emails where user_id = $1`, Args: []any{id}},
		{SQL: `delete from user_otps where user_id = $1`, Args: []any{id}},
		server.ForgetKeys(id),
		{SQL: `insert into former_users (tenant_id, id, name) select tenant_id, id, name from users where id = $1`,
			Args: []any{id}},
		{SQL: `delete from users where id = $1`, Args: []any{id}},
	}
}

// NewPassword is the body of POST /api/v1/auth/password.
type NewPassword struct {
	Current value.Optional[string] `json:"current_password" rule:"required,writeOnly,maxLength=1000"`
	New     value.Optional[string] `json:"new_password" rule:"required,writeOnly,maxLength=200,minLength=10"`
}

// Check applies CheckPassword.
func (n *NewPassword) Check(problems *server.Problems) {
	checkNewPassword(problems, "new_password", n.New)
}

var changePasswordDoc = &server.Doc{
	ID: "changePassword", Tag: tag, Summary: "Change your password",
	Description: "Ends all your sessions, including this one: refresh tokens become invalid, so log in again " +
		"before the access token expires. A wrong `current_password` gets a `400`, not a `401`, because the access " +
		"token is valid. It counts as a failed login; too many failed logins get a `429` with `Retry-After`.",
	Errors: []*server.Error{errCurrentPassword},
}

var errCurrentPassword = server.BadRequest("INVALID_CREDENTIALS", "The current password is wrong").
	On("current_password")

func (s *Service) changePassword(ctx context.Context, r *server.Request[NewPassword]) (server.NoContent, error) {
	user, err := s.checkPassword(ctx, *r.In.Current.Value, r.Address)
	if err != nil {
		return nil, err
	}
	id, old := user.actor.User, user.hash
	hash, err := s.hash(ctx, *r.In.New.Value)
	if err != nil {
		return nil, err
	}
	changed := db.SQL(`
		update users set password_hash = $3, link_hash = null, link_expires_at = null, updated_at = now()
		where id = $1 and password_hash = $2 returning id`,
		id, old, hash)
	ended := db.SQL(`
		delete from sessions where user_id = $1 and exists (select from users where id = $1 and password_hash = $2)`,
		id, hash)
	if err := s.db.Write(ctx, changed, ended); err != nil {
		return nil, err
	}
	if changed.Rows() == 0 { // a concurrent change replaced the password
		return nil, errCurrentPassword
	}
	return nil, nil
}

// checkPassword checks the current password of the caller, as a login does. It returns the caller.
func (s *Service) checkPassword(ctx context.Context, password, address string) (*loginUser, error) {
	user, email := &loginUser{actor: db.ActorOf(ctx)}, ""
	err := s.db.Read(ctx, s.readUser(user, address),
		db.SQL(`select email from users where id = $1`, user.actor.User).Into(&email))
	if err != nil {
		return nil, err
	}
	done, err := s.begin(ctx, EmailKey(email), address, secrets.Session, nil)
	if err != nil {
		return nil, err
	}
	outcome := secrets.Abandoned
	defer func() { done(outcome) }()

	right, err := s.hasher.Verify(ctx, user.hash, password, tenantGroup(ctx))
	switch {
	case errors.Is(err, secrets.ErrBusy):
		return nil, server.ErrUnavailable.Because(err)
	case err != nil:
		return nil, err
	case !right:
		outcome = secrets.Failed
		return nil, errCurrentPassword
	}
	outcome = secrets.Succeeded
	return user, nil
}
