package auth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"spoolwright/auth/audit"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// The second factor of a user is a row of user_otps. It takes effect when users.otp_at is set: after the user has
// entered a code, which proves that the app has the secret. All changes lock the user's row first.

// factorRoutes returns the operations of /api/v1/auth/otp.
func (s *Service) factorRoutes() []server.Route {
	return []server.Route{
		server.Op("POST /api/v1/auth/otp", server.Read, server.Handle(s.beginOTP), beginOTPDoc).
			WithoutKey().ForUsers().ForSettingUp(),
		server.Op("POST /api/v1/auth/otp/confirm", server.Read, server.Handle(s.confirmOTP), confirmOTPDoc).
			WithoutKey().ForUsers().ForSettingUp(),
		server.Op("POST /api/v1/auth/otp/recovery-codes", server.Read, server.Handle(s.renewRecoveryCodes),
			renewRecoveryCodesDoc).WithoutKey().ForUsers(),
		server.Op("POST /api/v1/auth/otp/disable", server.Read, server.Handle(s.disableOTP), disableOTPDoc).
			WithoutKey().ForUsers(),
	}
}

// CurrentPassword is the body of the operation that begins to set up a second factor.
type CurrentPassword struct {
	Current value.Optional[string] `json:"current_password" rule:"required,writeOnly,maxLength=1000"`
}

// Code is the body of the operations that need a code.
type Code struct {
	OTP value.Optional[string] `json:"otp" rule:"required,writeOnly,maxLength=100"`
}

// CodeAndPassword is the body of the operation that turns off a second factor.
type CodeAndPassword struct {
	Current value.Optional[string] `json:"current_password" rule:"required,writeOnly,maxLength=1000"`
	OTP     value.Optional[string] `json:"otp" rule:"required,writeOnly,maxLength=100"`
}

// OTPSetup is the secret of a second factor that is not confirmed yet.
type OTPSetup struct {
	Secret string `json:"secret" rule:"secret"`
	URI    string `json:"uri" rule:"secret"`
}

// RecoveryCodes are new recovery codes.
type RecoveryCodes struct {
	Codes value.Optional[value.Texts] `json:"recovery_codes" rule:"readOnly,notNull"`
}

const wrongCode = "The code is wrong or was used already"

var (
	errOTPRequired = &server.Error{Status: 401, Code: "OTP_REQUIRED",
		Detail: language.Sprintf("Send the code of your app, or a recovery code, as otp")}
	errLoginOTP = (&server.Error{Status: 401, Code: "INVALID_OTP", Detail: wrongCode}).On("otp")

	errOTP         = server.BadRequest("INVALID_OTP", wrongCode).On("otp")
	errOTPEnabled  = server.Conflict("OTP_ENABLED", "You have a second factor: turn it off first")
	errOTPDisabled = server.Conflict("OTP_NOT_ENABLED", "You have no second factor")
	errOTPSetup    = server.Conflict("OTP_NOT_BEGUN", "Begin to set up a second factor first, and confirm it within an "+
		"hour")
	errOwnReset = server.Conflict("OWN_OTP", "Turn off your own second factor with a code, or ask another admin")
)

// setUpFor is the maximum time between the creation of a second factor's secret and the first code.
const setUpFor = time.Hour

var beginOTPDoc = &server.Doc{
	ID: "beginOtp", Tag: tag, Summary: "Begin to set up a second factor",
	Description: "Returns a secret for an app that shows codes of RFC 6238 (6 digits, 30 seconds, SHA-1), and its " +
		"address for a QR code. Nothing changes until `POST /api/v1/auth/otp/confirm` receives a code, within an hour. " +
		"Calling this operation again replaces the secret. A wrong `current_password` counts as a failed login.",
	Errors: []*server.Error{errCurrentPassword, errOTPEnabled},
}

func (s *Service) beginOTP(ctx context.Context, r *server.Request[CurrentPassword]) (server.OK[OTPSetup], error) {
	user, err := s.checkPassword(ctx, *r.In.Current.Value, r.Address)
	if err != nil {
		return nil, err
	}
	secret, id, email := make([]byte, secrets.OTPSecretBytes), value.NewID(), ""
	rand.Read(secret)
	lock := db.SQL(`select email from users where id = $1 and otp_at is null for no key update`, user.actor.User).
		Into(&email)
	begun := db.SQL(`
		insert into user_otps (user_id, id, secret, created_at)
		select u.id, $2, $3, $4 from users u where u.id = $1 and u.otp_at is null
		on conflict (tenant_id, user_id) do update
			set id = excluded.id, secret = excluded.secret, created_at = excluded.created_at`,
		user.actor.User, id, s.tokens.vault.Seal(id, secret), s.now())
	if err := s.db.Write(ctx, lock, begun); err != nil {
		return nil, err
	}
	if lock.Rows() == 0 {
		return nil, errOTPEnabled
	}
	return server.Encode(OTPSetup{Secret: secrets.EncodeOTP(secret), URI: secrets.OTPURI(secret, email)})
}

var confirmOTPDoc = &server.Doc{
	ID: "confirmOtp", Tag: tag, Summary: "Turn on the second factor",
	Description: "From now on, each login needs a code. Returns ten recovery codes; each replaces a code once. This is " +
		"the only response with them. Ends your other sessions.",
	Errors: []*server.Error{errOTP, errOTPEnabled, errOTPSetup},
}

func (s *Service) confirmOTP(ctx context.Context, r *server.Request[Code]) (server.OK[RecoveryCodes], error) {
	caller, now := db.ActorOf(ctx), s.now()
	var enabled bool
	var id string
	var sealed []byte
	var codes []string
	lock := db.SQL(`select otp_at is not null from users where id = $1 for no key update`, caller.User).Into(&enabled)
	begun := db.SQL(`select id::text, secret from user_otps where user_id = $1 and created_at > $2`,
		caller.User, now.Add(-setUpFor)).Into(&id, &sealed)
	err := s.db.Decide(ctx, []*db.Stmt{lock, begun}, func() ([]*db.Stmt, error) {
		switch {
		case enabled:
			return nil, errOTPEnabled
		case begun.Rows() == 0:
			return nil, errOTPSetup
		}
		secret, _, err := s.tokens.vault.Open(id, sealed)
		if err != nil {
			return nil, errOTPSetup.Because(err)
		}
		step, ok := secrets.FindStep(secret, secrets.CleanCode(*r.In.OTP.Value), now)
		if !ok {
			return nil, errOTP
		}
		var hashes [][]byte
		codes, hashes = secrets.NewRecoveryCodes(id)
		return []*db.Stmt{
			db.SQL(`update users set otp_at = $2, updated_at = now() where id = $1`, caller.User, now),
			db.SQL(`update user_otps set last_step = $2, `+setRecoveryCodes+` where user_id = $1`, caller.User, step,
				hexOf(hashes)),
			endOthers(caller),
		}, nil
	})
	return showRecoveryCodes(codes, err)
}

// setRecoveryCodes sets the hashes of recovery codes to $3.
const setRecoveryCodes = `recovery_hashes = (select array_agg(decode(h, 'hex')) from unnest($3::text[]) h)`

func hexOf(hashes [][]byte) (texts []string) {
	for _, hash := range hashes {
		texts = append(texts, hex.EncodeToString(hash))
	}
	return texts
}

func showRecoveryCodes(codes []string, err error) (server.OK[RecoveryCodes], error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"recovery_codes": codes})
}

// endOthers returns a statement that ends the sessions of a user, except the actor's own.
func endOthers(actor db.Actor) *db.Stmt {
	return db.SQL(`delete from sessions where user_id = $1 and id::text <> $2`, actor.User, actor.Session)
}

var renewRecoveryCodesDoc = &server.Doc{
	ID: "renewRecoveryCodes", Tag: tag, Summary: "Get new recovery codes",
	Description: "Returns ten new recovery codes; the earlier ones no longer work. This is the only response with " +
		"them. `otp` is a code of the app or a recovery code. Wrong codes count as those of a login.",
	Errors: []*server.Error{errOTP, errOTPDisabled},
}

func (s *Service) renewRecoveryCodes(ctx context.Context, r *server.Request[Code]) (server.OK[RecoveryCodes], error) {
	user := &loginUser{actor: db.ActorOf(ctx)}
	if err := s.db.Read(ctx, s.readUser(user, r.Address)); err != nil {
		return nil, err
	}
	var codes []string
	err := s.useOwnCode(ctx, user, *r.In.OTP.Value, r.Address, func(id string) []*db.Stmt {
		var hashes [][]byte
		codes, hashes = secrets.NewRecoveryCodes(id)
		return []*db.Stmt{db.SQL(`update user_otps set `+setRecoveryCodes+` where user_id = $1 and id = $2`,
			user.actor.User, id, hexOf(hashes))}
	})
	return showRecoveryCodes(codes, err)
}

var disableOTPDoc = &server.Doc{
	ID: "disableOtp", Tag: tag, Summary: "Turn off the second factor",
	Description: "`otp` is a code of the app or a recovery code. Ends your other sessions. Where the farm requires a " +
		"second factor, you can then only set up a new one, for example on a new phone. A wrong `current_password` counts " +
		"as a failed login, and a wrong code as that of a login.",
	Errors: []*server.Error{errCurrentPassword, errOTP, errOTPDisabled},
}

func (s *Service) disableOTP(ctx context.Context, r *server.Request[CodeAndPassword]) (server.NoContent, error) {
	user, err := s.checkPassword(ctx, *r.In.Current.Value, r.Address)
	if err != nil {
		return nil, err
	}
	return nil, s.useOwnCode(ctx, user, *r.In.OTP.Value, r.Address, func(string) []*db.Stmt {
		return append(removeFactor(user.actor.User), endOthers(db.ActorOf(ctx)))
	})
}

// removeFactor returns the statements that remove the second factor of a user.
func removeFactor(user string) []*db.Stmt {
	return []*db.Stmt{
		db.SQL(`update users set otp_at = null, updated_at = now() where id = $1 and otp_at is not null`, user),
		db.SQL(`delete from user_otps where user_id = $1`, user),
	}
}

var resetOTPDoc = &server.Doc{
	ID: "deleteUserOtp", Tag: usersTag, Summary: "Remove the second factor of a user",
	Description: "For a user who has lost the phone and the recovery codes: a login then needs only the password. Ends " +
		"the user's sessions. Without a second factor, nothing changes. Admins turn off their own second factor with a " +
		"code instead.",
	Errors: []*server.Error{errOwnReset},
}

func (s *Service) resetOTP(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	id, enabled := r.ID("id"), false
	if id == db.ActorOf(ctx).User {
		return nil, errOwnReset
	}
	found := db.SQL(`select otp_at is not null from users where id = $1 for no key update`, id).Into(&enabled)
	return nil, s.db.Decide(ctx, []*db.Stmt{found}, func() ([]*db.Stmt, error) {
		switch {
		case found.Rows() == 0:
			return nil, server.ErrNotFound
		case !enabled:
			return nil, nil
		}
		return ResetFactor(id), nil
	})
}

// ResetFactor returns the statements that remove the second factor of a user and end the user's sessions. The user's
// row must be locked.
func ResetFactor(user string) []*db.Stmt {
	return append(removeFactor(user), db.SQL(`delete from sessions where user_id = $1`, user))
}

// Wrong codes of a user are limited for each known address, and for all other addresses together: beyond the limit, no
// code from there is verified until wrongCodesFor has passed since the first wrong code. There are a million codes,
// and three of them are right at a time: with maxWrongCodes a day, someone who has the password guesses a right code
// with a probability of 2 percent in a year. Others cannot use up the tries of the user's known addresses, and
// recovery codes are not limited.
const (
	maxWrongCodes = 20
	wrongCodesFor = 24 * time.Hour
)

// startWithCode starts a session for a user who has given the right password, if the code is right.
func (s *Service) startWithCode(ctx context.Context, user *loginUser, code, address string) (Refresh, error) {
	session, opened, stmts := s.openSession(user, address)
	err := s.useCode(db.As(ctx, user.actor), user, code, address, func(string) []*db.Stmt { return stmts })
	switch {
	case err == errNoFactor || err == nil && opened.Rows() == 0:
		err = errCredentials // the user has changed in the meantime
	case err == errWrongCode:
		err = errLoginOTP
	}
	return session, err
}

// useOwnCode is useCode for the caller.
func (s *Service) useOwnCode(ctx context.Context, user *loginUser, code, address string, then func(string) []*db.Stmt,
) error {
	err := s.useCode(ctx, user, code, address, then)
	switch e, _ := errors.AsType[*server.Error](err); {
	case err == errNoFactor:
		return errOTPDisabled
	case err == errWrongCode:
		return errOTP
	case e != nil && e.Status == 401: // the access token is valid
		c := *e
		c.Status = 400
		return &c
	}
	return err
}

var (
	errNoFactor  = errors.New("auth: the user has no second factor, or has changed")
	errWrongCode = errors.New("auth: " + wrongCode)
)

// useCode verifies a code of the app or a recovery code. The transaction that uses the code also runs the statements
// that the function then returns for the id of the second factor. The error is errNoFactor, errWrongCode, or a 429.
//
// A code works once, even if many requests send it at the same time, because they lock the user's row.
func (s *Service) useCode(ctx context.Context, user *loginUser, code, address string, then func(string) []*db.Stmt,
) error {
	code = secrets.CleanCode(code)
	outcome := secrets.Abandoned
	if !secrets.IsRecoveryCode(code) {
		source := secrets.Anonymous
		if user.knownAddress {
			source = secrets.KnownAddress
		}
		done, err := s.begin(ctx, "otp "+user.actor.User, address, source, nil)
		if err != nil {
			return tooManyCodes(err)
		}
		defer func() { done(outcome) }()
	}
	var f factor
	now, id := s.now(), user.actor.User
	lock := db.SQL(`select id from users where id = $1 and password_hash = $2 and disabled_at is null
		and otp_at is not null for no key update`, id, user.hash)
	found := db.SQL(`
		select id::text, secret, last_step, array(select encode(h, 'hex') from unnest(recovery_hashes) h),
			wrong_codes, wrong_since from user_otps where user_id = $1`, id).
		Into(&f.id, &f.secret, &f.lastStep, &f.recovery, &f.wrong, &f.since)
	known := db.SQL(`
		select wrong_codes, wrong_since from login_addresses where user_id = $1 and address = $2 and used_at > $3`,
		id, address, now.Add(-knownFor)).Into(&f.wrongHere, &f.sinceHere)
	var wrong error
	err := s.db.Decide(ctx, []*db.Stmt{lock, found, known}, func() ([]*db.Stmt, error) {
		wrong = nil
		if lock.Rows() == 0 || found.Rows() == 0 {
			return nil, errNoFactor
		}
		if known.Rows() > 0 {
			f.wrong, f.since = f.wrongHere, f.sinceHere
		}
		used, err := s.verifyCode(&f, id, code, now)
		switch {
		case err == errWrongCode:
			wrong = err
			count := `update user_otps set ` + countWrongCode + ` where user_id = $1`
			args := []any{id, now, now.Add(-wrongCodesFor)}
			if known.Rows() > 0 {
				count = `update login_addresses set ` + countWrongCode + ` where user_id = $1 and address = $4`
				args = append(args, address)
			}
			stmts := []*db.Stmt{audit.FailedCode(id)}
			if !secrets.IsRecoveryCode(code) {
				stmts = append(stmts, db.SQL(count, args...))
			}
			return stmts, nil
		case err != nil:
			return nil, err
		}
		return append(used, then(f.id)...), nil
	})
	if err == nil {
		err = wrong
	}
	switch err {
	case nil:
		outcome = secrets.Succeeded
	case errWrongCode:
		outcome = secrets.Failed
	}
	return err
}

// countWrongCode counts a wrong code at the time $2. The count begins again if its first code is older than $3.
const countWrongCode = `wrong_codes = case when wrong_since > $3 then wrong_codes + 1 else 1 end,
	wrong_since = case when wrong_since > $3 then wrong_since else $2 end`

// factor is a row of user_otps. If the request comes from a known address, its counts are those of the address.
type factor struct {
	id               string
	secret           []byte // encrypted
	lastStep         int64
	recovery         []string // the hashes of the unused recovery codes, as hexadecimal digits
	wrong, wrongHere int
	since, sinceHere *time.Time
}

// verifyCode returns the statements that make the code invalid if it is right. Otherwise, the error is errWrongCode,
// or a 429 if there were too many wrong codes.
func (s *Service) verifyCode(f *factor, user, code string, now time.Time) ([]*db.Stmt, error) {
	if secrets.IsRecoveryCode(code) {
		hash := secrets.RecoveryHash(f.id, code)
		if !slices.Contains(f.recovery, hex.EncodeToString(hash)) {
			return nil, errWrongCode
		}
		return []*db.Stmt{db.SQL(`update user_otps set recovery_hashes = array_remove(recovery_hashes, $2::bytea)
			where user_id = $1`, user, hash)}, nil
	}
	if f.since != nil && f.since.After(now.Add(-wrongCodesFor)) && f.wrong >= maxWrongCodes {
		return nil, tooManyCodes(&server.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED",
			RetryAfter: f.since.Add(wrongCodesFor).Sub(now)})
	}
	secret, key, err := s.tokens.vault.Open(f.id, f.secret)
	if err != nil { // JWT_SECRET has changed: only recovery codes work
		return nil, errUndecryptable.Because(err)
	}
	step, ok := secrets.FindStep(secret, code, now)
	if !ok || step <= f.lastStep { // also after the clock was set back
		return nil, errWrongCode
	}
	sealed := f.secret
	if key > 0 { // encrypted with an earlier JWT_SECRET
		sealed = s.tokens.vault.Seal(f.id, secret)
	}
	return []*db.Stmt{db.SQL(`update user_otps set last_step = $2, secret = $3 where user_id = $1 and last_step < $2`,
		user, step, sealed)}, nil
}

var errUndecryptable = (&server.Error{Status: 401, Code: "INVALID_OTP", Detail: language.Sprintf(
	"Codes of apps cannot be verified " +
		"because the secret of the service has changed: use a recovery code, or ask an admin")}).On("otp")

// tooManyCodes gives a 429 the text for codes.
func tooManyCodes(err error) error {
	e, ok := errors.AsType[*server.Error](err)
	if !ok || e.Status != 429 {
		return err
	}
	c := *e
	c.Detail = language.Sprintf("Too many wrong codes; try again later, or use a recovery code")
	return &c
}
