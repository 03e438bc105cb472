package auth

import (
	"context"
	"errors"
	"time"

	"spoolwright/auth/audit"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Credentials is the body of a login.
type Credentials struct {
	Email    value.Optional[string] `json:"email" rule:"required,maxLength=320"`
	Password value.Optional[string] `json:"password" rule:"required,maxLength=1000"`
	OTP      value.Optional[string] `json:"otp" rule:"maxLength=100"`
}

var loginDoc = &server.Doc{
	ID: "login", Tag: tag, Summary: "Log in",
	Description: "Returns an access token and a refresh token. A wrong e-mail and a wrong password get the same " +
		"response after the same time. Failed logins within 15 minutes are limited: 5 for an account from one address, 20 " +
		"from an address, 100 for an account. Beyond that, every login gets a `429` with `Retry-After`, also with the " +
		"right password. The limit of the account does not apply to the 20 addresses from which the user last logged in " +
		"or refreshed a session within 30 days. An account can log in 300 times within 15 minutes.\n\n" +
		"A user with a second factor also sends `otp`: the code of the app, or a recovery code. Without it, the right " +
		"password gets `OTP_REQUIRED`. A code works once. 5 wrong codes from one address within 15 minutes get a `429`, " +
		"as do 20 within 24 hours from one of those 20 addresses, or from all others together. Recovery codes work " +
		"nevertheless. `otp` is ignored for a user without a second factor.\n\n" +
		"Where the farm requires the sign-on at its provider, the right password gets `SIGN_ON_REQUIRED`.",
	Errors: []*server.Error{errCredentials, errOTPRequired, errLoginOTP, errSignOnRequired},
}

var errCredentials = &server.Error{Status: 401, Code: "INVALID_CREDENTIALS", Detail: language.Sprintf(
	"Incorrect email or password")}

func (s *Service) login(ctx context.Context, r *server.Request[Credentials]) (server.OK[TokenSet], error) {
	user, session, err := s.startWith(ctx, *r.In.Email.Value, *r.In.Password.Value, r.In.OTP.Or(""), r.Address)
	if err != nil {
		return nil, err
	}
	return s.tokenSet(user.actor, session)
}

// startWith starts a session for the user with the e-mail, the password and, if the user has a second factor, the
// code, who logs in from the address. If only the code is missing, the error is errOTPRequired, and startWith returns
// the user.
func (s *Service) startWith(
	ctx context.Context, email, password, code, address string,
) (user *loginUser, session Refresh, err error) {
	email = EmailKey(email)
	find := func() (err error) {
		if user == nil {
			user, err = s.findUser(ctx, email, address)
		}
		return err
	}
	done, err := s.begin(ctx, email, address, secrets.Anonymous, func() (bool, error) {
		err := find()
		return err == nil && user.knownAddress, err
	})
	if err != nil {
		return nil, session, err
	}
	outcome := secrets.Abandoned
	defer func() { done(outcome) }()

	if err := find(); err != nil {
		return nil, session, err
	}
	// The groups do not include the tenant: the order of hashing must not depend on whether the account exists.
	right, err := s.hasher.Verify(ctx, user.hash, password, "account "+email, "address "+address)
	if errors.Is(err, secrets.ErrBusy) {
		return nil, session, server.ErrUnavailable.Because(err)
	}
	if err != nil {
		return nil, session, err
	}
	if !right {
		outcome = secrets.Failed
		if user.actor.User != nobody {
			s.db.Later(db.As(ctx, db.Actor{Tenant: user.actor.Tenant}), audit.FailedSignIn(user.actor.User))
		}
		return nil, session, errCredentials
	}
	if user.required {
		done(secrets.Passed)
		return nil, session, errSignOnRequired
	}
	if !user.factor {
		outcome = secrets.Succeeded
		session, err = s.startSession(db.As(ctx, user.actor), user, address)
		return user, session, err
	}
	done(secrets.Passed) // the code is another attempt
	if code == "" {
		return user, session, errOTPRequired
	}
	session, err = s.startWithCode(ctx, user, code, address)
	return user, session, err
}

// loginUser is the user whom a login names. If the user does not exist or is disabled, hash is empty.
type loginUser struct {
	actor     db.Actor
	hash      string
	factor    bool // whether a login needs a code
	required  bool // whether the farm refuses a login by password
	signedOn  bool // whether the provider of the farm has signed the user in
	factorMet bool // whether it has confirmed a second factor

	issuer, subject string // of the user's account at the provider, if signedOn is set
	knownAddress    bool   // the user logged in or refreshed a session from the address within knownFor
}

// nobody is an id that no tenant and no user has. All logins with unknown e-mails use this id, so that together they
// get the connections of one tenant.
var nobody = value.NewID()

// findUser returns the user with the e-mail. For an unknown e-mail, it makes the same round trips, so that the
// response time does not reveal whether the e-mail exists.
func (s *Service) findUser(ctx context.Context, email, address string) (*loginUser, error) {
	actor, found, err := s.db.FindLogin(ctx, email)
	if err != nil {
		return nil, err
	}
	if !found {
		actor = db.Actor{Tenant: nobody, User: nobody}
	}
	u := &loginUser{actor: actor}
	return u, s.db.Read(db.As(ctx, db.Actor{Tenant: actor.Tenant}), s.readUser(u, address))
}

// readUser returns the statement that reads the user with the id in u.
func (s *Service) readUser(u *loginUser, address string) *db.Stmt {
	u.actor.SettingUp = true // a user who must set up a second factor logs in for that
	return db.SQL(`
		select u.password_hash, u.role, u.otp_at is not null, exists (
			select from login_addresses a where a.user_id = u.id and a.address = $2 and a.used_at > $3),
			coalesce((select p.required from sign_on_providers p), false)
		from users u where u.id = $1 and u.disabled_at is null`, u.actor.User, address, s.now().Add(-knownFor)).
		Into(&u.hash, &u.actor.Role, &u.factor, &u.knownAddress, &u.required)
}

// knownFor is the time for which an address counts as known after a login or a refresh. Only the latest maxKnown
// addresses of a user count.
const (
	knownFor = 30 * 24 * time.Hour
	maxKnown = 20
)

// rememberAddress returns a statement that makes the address known for the user of the session, if the session exists.
// The statement also deletes addresses that are no longer known. To save writes, it updates an address at most once an
// hour.
func rememberAddress(session Refresh, address string, now time.Time) *db.Stmt {
	return db.SQL(`
		with used as (
			insert into login_addresses as a (user_id, address, used_at)
			select s.user_id, $3, $4 from sessions s where s.id = $1 and s.user_id = $2
			on conflict (tenant_id, user_id, address) do update set used_at = excluded.used_at
				where a.used_at < excluded.used_at - interval '1 hour'
		)
		delete from login_addresses a
		where a.user_id = $2 and a.address <> $3 and (a.used_at <= $5 or a.address not in (
			select o.address from login_addresses o
			where o.user_id = $2 and o.address <> $3 order by o.used_at desc limit $6))`,
		session.SessionID, session.UserID, address, now, now.Add(-knownFor), maxKnown-1)
}

// beginWait is the time for which an attempt waits for the outcome of other attempts of the same account or address.
const beginWait = 10 * time.Second

// begin calls the throttle's Begin. While running attempts fill a limit, begin waits for their outcome, because they
// may be logins with the right password. When the limit of the account is full, begin calls known to find out whether
// the address is a known address of the account; a nil known means no. The error is an error of known, a 429 if
// failures fill a limit, or a 503 after beginWait.
func (s *Service) begin(
	ctx context.Context, email, address string, source secrets.Source, known func() (bool, error),
) (done func(secrets.Outcome), err error) {
	timeout := time.NewTimer(beginWait)
	defer timeout.Stop()
	for {
		done, limit := s.throttle.Begin(email, address, source)
		if limit == nil {
			return done, nil
		}
		if limit.Window == secrets.AccountWindow && known != nil {
			ok, err := known()
			if err != nil {
				return nil, err
			}
			known = nil
			if ok {
				source = secrets.KnownAddress
				continue
			}
		}
		if limit.RetryAfter > 0 {
			e := &server.Error{
				Status: 429, Code: "RATE_LIMIT_EXCEEDED", Detail: language.Sprintf("Too many failed logins; try again later"),
				RetryAfter: limit.RetryAfter,
			}
			if limit.Window == secrets.LoginWindow {
				e.Detail = language.Sprintf("Too many logins of this account; try again later")
			}
			return nil, e
		}
		select {
		case <-limit.Changed:
		case <-timeout.C:
			return nil, server.ErrUnavailable.Because(secrets.ErrBusy)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// startSession inserts a session for the user and deletes the user's expired sessions. The row lock waits for a
// concurrent change of the user. If the change replaced the password hash, disabled the user or turned on a second
// factor, the error is errCredentials. So it is if the farm now requires the sign-on, and the user has not signed on,
// or if it has another issuer than that of the user's sign-on.
func (s *Service) startSession(ctx context.Context, user *loginUser, address string) (Refresh, error) {
	session, opened, stmts := s.openSession(user, address)
	err := s.db.Write(ctx, stmts...)
	if err == nil && opened.Rows() == 0 {
		err = errCredentials
	}
	return session, err
}

// openSession returns the statements of startSession. The statement opened among them inserts the session.
func (s *Service) openSession(user *loginUser, address string) (session Refresh, opened *db.Stmt, all []*db.Stmt) {
	now, actor := s.now().UTC().Truncate(time.Second), user.actor
	session = Refresh{TenantID: actor.Tenant, UserID: actor.User, SessionID: value.NewID(), Counter: 1, IssuedAt: now}
	lifetime := s.tokens.RefreshTTL()
	if user.signedOn {
		lifetime = min(lifetime, signOnFor)
	}
	opened = db.SQL(`
		with p as materialized (select issuer, required from sign_on_providers for share),
		u as (select id from users where id = $2 and password_hash = $5 and disabled_at is null
			and case when $7::boolean then (sign_on_issuer, sign_on_subject) = ($9::text, $10::text)
				and exists (select from p where p.issuer = $9::text)
				else not exists (select from p where p.required) end
			and (otp_at is not null) = $6 for share)
		insert into sessions (id, user_id, counter, created_at, refreshed_at, expires_at, signed_on, factor_met)
		select $1, u.id, 1, $3, $3, $4, $7, $8 from u returning id`,
		session.SessionID, actor.User, now, now.Add(lifetime), user.hash, user.factor, user.signedOn, user.factorMet,
		user.issuer, user.subject)
	return session, opened, []*db.Stmt{
		db.SQL(`delete from sessions where user_id = $1 and expires_at < $2`, actor.User, now),
		opened,
		rememberAddress(session, address, now),
		db.SQL(`select audit_add('sign_in', 'user', u.id, u.name)::text from users u
			where u.id = $1 and exists (select from sessions where id = $2)`, actor.User, session.SessionID),
	}
}
