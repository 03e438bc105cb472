package auth

import (
	"context"
	"slices"
	"strings"

	"spoolwright/auth/oidc"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

var signOnTag = &server.Tag{
	Name: "sign-on", Fields: fields,
	Description: "The provider of OpenID Connect with which users of the tenant sign in. For admins.",
}

// signOnRoutes returns the operations of /api/v1/sign-on.
func (s *Service) signOnRoutes() []server.Route {
	const path = " /api/v1/sign-on"
	return []server.Route{
		server.Op("GET"+path, server.Admin, server.Handle(s.getSignOn), getSignOnDoc).ForUsers().Versioned(
			func(...string) []*db.Stmt {
				return []*db.Stmt{db.SQL(`select id from sign_on_providers for no key update`)}
			}),
		server.Op("PUT"+path, server.Admin, server.Handle(s.putSignOn), putSignOnDoc).ForUsers(),
		server.Op("DELETE"+path, server.Admin, server.Handle(s.deleteSignOn), deleteSignOnDoc).ForUsers(),
		server.Op("DELETE /api/v1/users/{id}/sign-on", server.Admin, server.Handle(s.unbindUser), unbindUserDoc).ForUsers(),
	}
}

// SignOn is the provider of OpenID Connect of a tenant.
type SignOn struct {
	Issuer    value.Optional[string]      `json:"issuer" rule:"required,maxLength=300"`
	ClientID  value.Optional[string]      `json:"client_id" rule:"required,maxLength=200"`
	Secret    value.Optional[string]      `json:"client_secret" rule:"writeOnly,maxLength=1000"`
	HasSecret bool                        `json:"has_client_secret" rule:"readOnly,notNull"`
	Domain    value.Optional[string]      `json:"email_domain" rule:"maxLength=200,trim"`
	RoleClaim value.Optional[string]      `json:"role_claim" rule:"maxLength=100"`
	Admin     value.Optional[string]      `json:"admin_value" rule:"maxLength=200"`
	Operator  value.Optional[string]      `json:"operator_value" rule:"maxLength=200"`
	Viewer    value.Optional[string]      `json:"viewer_value" rule:"maxLength=200"`
	Factors   value.Optional[value.Texts] `json:"factors" rule:"notNull"`
	Required  value.Optional[bool]        `json:"required" rule:"notNull"`
	Address   value.Optional[string]      `json:"sign_on_url" rule:"readOnly"`
	Redirect  value.Optional[string]      `json:"redirect_uri" rule:"readOnly"`
	CreatedAt value.Timestamp             `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt value.Timestamp             `json:"updated_at" rule:"readOnly,notNull"`
}

// Check reports an issuer and a domain that are none.
func (p *SignOn) Check(problems *server.Problems) {
	if !p.Issuer.IsNull() && !oidc.CheckIssuer(*p.Issuer.Value) {
		problems.Add("issuer", "must be the URL of an issuer, such as https://login.farm.example")
	}
	if d := p.Domain; !d.IsNull() && (strings.ContainsAny(*d.Value, "@ /") || !strings.Contains(*d.Value, ".")) {
		problems.Add("email_domain", "must be a domain such as farm.example, or null")
	}
}

// columns selects the fields of a SignOn. The site is the argument with the number.
const signOnColumns = `issuer, client_id, secret is not null as has_client_secret, email_domain, role_claim, admin_value,
	operator_value, viewer_value, to_jsonb(factors) as factors, required,
	nullif($1::text, '') || '/sign-on/' || tenant_id as sign_on_url,
	nullif($1::text, '') || '/sign-on/' || tenant_id || '/callback' as redirect_uri, created_at, updated_at`

var getSignOnDoc = &server.Doc{
	ID: "getSignOn", Tag: signOnTag, Summary: "Get the provider of the sign-on",
	Description: "Returns with which provider of OpenID Connect the users of the tenant sign in. No operation returns " +
		"the secret. `sign_on_url` is the address at which users sign in, and `redirect_uri` is for the provider; both " +
		"are null if the service has no `PUBLIC_URL`, and nobody can sign on.",
	Errors: []*server.Error{server.ErrNotFound},
}

func (s *Service) getSignOn(ctx context.Context, _ *server.Request[struct{}]) (server.OK[SignOn], error) {
	read := db.SQL(`select `+signOnColumns+` from sign_on_providers`, s.signOnSite)
	return server.One(read, s.db.Read(ctx, read))
}

var putSignOnDoc = &server.Doc{
	ID: "putSignOn", Tag: signOnTag, Summary: "Set the provider of the sign-on",
	Description: "Users of the tenant then sign in at the issuer too, with the code flow and PKCE. A user is recognized " +
		"the first time by the e-mail address, which the provider must have verified, and from then on by issuer and " +
		"subject. With `email_domain`, other persons with a verified address of this domain become users. Their role is " +
		"the first of admin, operator and viewer whose value the claim `role_claim` has; without a value, they do not " +
		"become users, and without `role_claim` they are viewers. Later changes of the claim change nothing.\n\n" +
		"`factors` are values of the claims `amr` and `acr` that meet the rule `second_factor`, and replace the code. With " +
		"`required`, logins by password are refused and sessions that began so end, except that of the caller. An admin " +
		"who has not signed on at this issuer cannot require it. API keys stay valid.\n\n" +
		"Without `client_secret`, the secret stays if neither `issuer` nor `client_id` changes; `null` removes it. Another " +
		"issuer or client ends the sessions of those who have signed on, except that of the caller. `LAST_ADMIN` means " +
		"that after a change of the issuer no enabled admin has a password or an account at it.",
	Errors: []*server.Error{errOwnSignOn, errNoAdminLeft},
	Request: `{"issuer":"https://login.farm.example","client_id":"spoolwright","client_secret":"0123456789abcdef",` +
		`"email_domain":"farm.example","role_claim":"groups","operator_value":"printing","factors":["mfa"]}`,
}

var (
	errOwnSignOn   = server.Conflict("SIGN_ON_NOT_TRIED", "Sign on at this issuer yourself first").On("required")
	errNoAdminLeft = server.Conflict("LAST_ADMIN",
		"Afterwards no enabled admin could sign in; set a password for an admin first")
)

// adminLeft returns a statement that reads whether an enabled admin has a password, or an account at the issuer. A nil
// issuer is that of the provider. The account of the user without counts as forgotten. The lock of lockUsers must be
// held.
func adminLeft(left *bool, issuer any, without string) *db.Stmt {
	return db.SQL(`
		select exists (select from users where role = 'admin' and disabled_at is null and (password_hash <> ''
			or id::text <> $2 and sign_on_issuer = coalesce($1::text, (select issuer from sign_on_providers))))`,
		issuer, without).Into(left)
}

func (s *Service) putSignOn(ctx context.Context, r *server.Request[SignOn]) (server.OK[SignOn], error) {
	in, caller := &r.In, db.ActorOf(ctx)
	id, required := value.NewID(), in.Required.Or(false)
	var otherIssuer, other, tried, left bool
	lock := db.SQL(`select id::text, issuer <> $1, (issuer, client_id) <> ($1, $2) from sign_on_providers
		for no key update`, *in.Issuer.Value, *in.ClientID.Value).Into(&id, &otherIssuer, &other)
	own := db.SQL(`select sign_on_issuer is not distinct from $2 from users where id = $1`, caller.User,
		*in.Issuer.Value).Into(&tried)
	var written *db.Stmt
	admins := adminLeft(&left, in.Issuer.Arg(), "")
	err := s.db.Decide(ctx, []*db.Stmt{lockUsers(), lock, own, admins}, func() ([]*db.Stmt, error) {
		if required && !tried {
			return nil, errOwnSignOn
		}
		if otherIssuer && !left {
			return nil, errNoAdminLeft.On("issuer")
		}
		var secret []byte
		if !in.Secret.IsNull() {
			secret = s.tokens.secrets.Seal(caller.Tenant+" "+id, []byte(*in.Secret.Value))
		}
		written = db.SQL(`
			insert into sign_on_providers as p (id, issuer, client_id, secret, secret_at, email_domain, role_claim,
				admin_value, operator_value, viewer_value, factors, required)
			select $2::uuid, $3, $4, $5::bytea, case when $5::bytea is not null then now() end, $6, $7, $8, $9, $10,
				coalesce($11::text[], '{}'), $12
			on conflict (tenant_id) do update set issuer = excluded.issuer, client_id = excluded.client_id,
				secret = case when $13 then excluded.secret else p.secret end,
				secret_at = case when $13 then excluded.secret_at else p.secret_at end,
				email_domain = excluded.email_domain, role_claim = excluded.role_claim, admin_value = excluded.admin_value,
				operator_value = excluded.operator_value, viewer_value = excluded.viewer_value, factors = excluded.factors,
				required = excluded.required, updated_at = now()
			returning `+signOnColumns, s.signOnSite, id, in.Issuer.Arg(), in.ClientID.Arg(), secret, in.Domain.Arg(),
			in.RoleClaim.Arg(), in.Admin.Arg(), in.Operator.Arg(), in.Viewer.Arg(), in.Factors.Arg(), required,
			in.Secret.Set || other)
		return []*db.Stmt{written, db.SQL(`
			delete from sessions where id::text <> $1 and case when signed_on then $2::boolean else $3::boolean end`,
			caller.Session, other, required)}, nil
	})
	if err != nil {
		return nil, err
	}
	s.only.forget()
	return server.One(written, nil)
}

var deleteSignOnDoc = &server.Doc{
	ID: "deleteSignOn", Tag: signOnTag, Summary: "Remove the provider of the sign-on",
	Description: "Deletes the provider with its secret. Sessions of those who have signed on end, except that of the " +
		"caller. Logins by password are possible again. Users without a password need a password link. `LAST_ADMIN` means " +
		"that no enabled admin has a password.",
	Errors: []*server.Error{errNoAdminLeft, server.ErrNotFound},
}

func (s *Service) deleteSignOn(ctx context.Context, _ *server.Request[struct{}]) (server.NoContent, error) {
	left, found := false, db.SQL(`select id from sign_on_providers for update`)
	admins := adminLeft(&left, "", "") // no account has this issuer
	err := s.db.Decide(ctx, []*db.Stmt{lockUsers(), found, admins}, func() ([]*db.Stmt, error) {
		switch {
		case found.Rows() == 0:
			return nil, server.ErrNotFound
		case !left:
			return nil, errNoAdminLeft
		}
		return []*db.Stmt{db.SQL(`delete from sign_on_providers`),
			db.SQL(`delete from sessions where signed_on and id::text <> $1`, db.ActorOf(ctx).Session)}, nil
	})
	s.only.forget()
	return nil, err
}

var unbindUserDoc = &server.Doc{
	ID: "deleteUserSignOn", Tag: usersTag, Summary: "Forget the account of a user at the provider",
	Description: "For a user who has a new account at the provider: the next sign-on recognizes the user by the e-mail " +
		"address again. Ends the sessions that began at the provider. Without an account, nothing changes. `LAST_ADMIN` " +
		"means that no enabled admin would have a password or an account at the provider.",
	Errors: []*server.Error{errNoAdminLeft},
}

func (s *Service) unbindUser(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	id := r.ID("id")
	left, found := false, db.SQL(`select id from users where id = $1 for no key update`, id)
	unbound := db.SQL(`update users set sign_on_issuer = null, sign_on_subject = null, updated_at = now()
		where id = $1 and sign_on_subject is not null`, id)
	ended := db.SQL(`delete from sessions where user_id = $1 and signed_on`, id)
	err := s.db.Decide(ctx, []*db.Stmt{lockUsers(), found, adminLeft(&left, nil, id)}, func() ([]*db.Stmt, error) {
		switch {
		case found.Rows() == 0:
			return nil, server.ErrNotFound
		case !left:
			return nil, errNoAdminLeft
		}
		return []*db.Stmt{unbound, ended}, nil
	})
	return nil, err
}

// provider is the provider of a tenant, with its secret.
type provider struct {
	oidc.Registration
	tenant  string
	id      string
	domain  string
	claim   string
	values  map[Role]string // of the claim, by role
	factors []string
}

// provider returns the provider of a tenant, to which ctx must be bound. The error is errNoSignOn if there is none.
func (s *Service) provider(ctx context.Context, tenant string) (*provider, error) {
	if s.SignOnAddress(tenant) == "" {
		return nil, errNoSignOn
	}
	p := &provider{tenant: tenant}
	p.RedirectURI = s.SignOnAddress(tenant) + "/callback"
	var sealed []byte
	var admin, operator, viewer string
	found := db.SQL(`
		select id::text, issuer, client_id, secret, coalesce(email_domain, ''), coalesce(role_claim, ''),
			coalesce(admin_value, ''), coalesce(operator_value, ''), coalesce(viewer_value, ''), factors
		from sign_on_providers`).Into(&p.id, &p.Issuer, &p.ID, &sealed, &p.domain, &p.claim, &admin, &operator, &viewer,
		&p.factors)
	if err := s.db.Read(ctx, found); err != nil {
		return nil, err
	}
	if found.Rows() == 0 {
		return nil, errNoSignOn
	}
	p.values = map[Role]string{"admin": admin, "operator": operator, "viewer": viewer}
	if sealed == nil {
		return p, nil
	}
	secret, key, err := s.tokens.secrets.Open(tenant+" "+p.id, sealed)
	if err != nil {
		return nil, errSignOnFailed.With("the secret of the client must be entered again").Because(err)
	}
	if p.Secret = string(secret); key > 0 { // encrypted with an earlier JWT_SECRET
		s.db.Later(ctx, db.SQL(`update sign_on_providers set secret = $1 where id = $2 and secret = $3`,
			s.tokens.secrets.Seal(tenant+" "+p.id, secret), p.id, sealed))
	}
	return p, nil
}

// role returns the role of a new user: the highest whose value the claim has.
func (p *provider) role(identity *oidc.Identity) (Role, bool) {
	if p.claim == "" {
		return "viewer", true
	}
	has := identity.Values(p.claim)
	for _, role := range roles {
		if value := p.values[role.name]; value != "" && slices.Contains(has, value) {
			return role.name, true
		}
	}
	return "", false
}
