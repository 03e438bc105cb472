package web

import (
	"slices"
	"strings"
	"time"
)

// settingsPage is the settings of the farm, for admins.
type settingsPage struct {
	Form  *form
	Users struct{ Items []account }
	Keys  struct{ Items []apiKey }
	Key   *form
	Extra [3]customFields // the custom fields of spools, filaments and vendors
	New   apiKey          // the key that was just created, or empty
	Link  string          // the password link that was just created, or ""
	Base  string          // the address of the service
}

type account struct {
	ID, Email, Name, Role string
	Disabled              bool
}

// State returns the role, and whether the user is disabled.
func (a account) State() string {
	if a.Disabled {
		return label(a.Role) + ", disabled"
	}
	return label(a.Role)
}

type apiKey struct {
	ID, Name, Role, Hint, Key string
	CreatedAt                 *time.Time `json:"created_at"`
	LastUsedAt                *time.Time `json:"last_used_at"`
}

var roles = []option{{"viewer", "Viewer: sees everything"}, {"operator", "Operator: also changes it"},
	{"admin", "Admin: also users and settings"}}

// KeyRoles returns the roles of API keys, to choose from.
func (p *settingsPage) KeyRoles() []option {
	return []option{{"printer", "Printer: reports its use"}, {"viewer", "Viewer: reads"},
		{"operator", "Operator: also writes"}}
}

var users = &editor{api: "/api/v1/users", path: "/settings/users", noun: "user", back: "/settings",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"email", text}, "E-mail", "type=email;required", nil},
		{field{"role", text}, "Role", "", roles},
		{field{"password", text}, "Password",
			"type=password;hint=At least 10 characters. In an edit, empty leaves it.", nil},
		{field{"disabled", flag}, "Sign-in", "", []option{{"false", "Allowed"}, {"true", "Not allowed"}}},
	}}

// At returns the address of the service with an API key as the password.
func (p *settingsPage) At(key string) string {
	return strings.Replace(p.Base, "://", "://x:"+key+"@", 1)
}

// Fields returns all custom fields.
func (p *settingsPage) Fields() []customField {
	return slices.Concat(p.Extra[0].Items, p.Extra[1].Items, p.Extra[2].Items)
}

func showSettings(v *visit) error { return v.settingsPage(200, &settingsPage{}) }

func (v *visit) settingsPage(status int, p *settingsPage) error {
	now := v.newForm()
	var values map[string]any
	if err := v.fetch(
		read{path: "/api/v1/settings", into: &values, tag: &now.Tag},
		get("/api/v1/users?limit=100&sort_by=name&sort_order=asc", &p.Users),
		get("/api/v1/api-keys?limit=100&revoked=false", &p.Keys),
		customRead("spool", &p.Extra[0]), customRead("filament", &p.Extra[1]), customRead("vendor", &p.Extra[2]),
	); err != nil {
		return err
	}
	now.fill(values)
	if p.Form == nil {
		p.Form = now
	}
	if p.Key == nil {
		p.Key = v.newForm()
	}
	p.Base = v.Address()
	return v.show(status, "settings", "Settings", p)
}

// farmFields are the fields of the settings: the time zone, the currency, and the rates for costs.
var farmFields = []field{{"time_zone", text}, {"currency", text}, {"labour_hour_cost", number},
	{"machine_hour_cost", number}, {"machine_power_watts", number}, {"energy_kwh_cost", number},
	{"failure_rate_percent", number}, {"failure_rate_measured", perhaps}}

// Measured returns the choice of the source of the failure rate.
func (p *settingsPage) Measured() []option {
	return []option{{"false", "The rate above"}, {"true", "The last 90 days, by product"}}
}

func changeSettings(v *visit) error {
	f := v.sent()
	ok, err := v.edit(f, "/api/v1/settings", farmFields)
	v.tell(&notice{Text: "The settings are saved."})
	return v.then(ok, err, "/settings", func() error { return v.settingsPage(422, &settingsPage{Form: f}) })
}

// exportFarm sends the file with all data of the farm.
func exportFarm(v *visit) error {
	v.site.server.Forward(v.w, v.r, v.caller(), "/api/v1/tenant/export")
	return nil
}

// createKey creates an API key, and shows it once.
func createKey(v *visit) error {
	p := &settingsPage{Key: v.sent()}
	ok, err := v.send(p.Key, "POST", "/api/v1/api-keys", p.Key.body(field{"name", text}, field{"role", text}), &p.New)
	if err != nil {
		return err
	}
	if !ok {
		return v.settingsPage(422, p)
	}
	if p.New.Key == "" { // the form was sent twice, and the key is not stored
		return v.redirect("/settings")
	}
	p.Key = nil
	return v.settingsPage(200, p)
}

// createPasswordLink creates a link with which a user sets a password, and shows the link once.
func createPasswordLink(v *visit) error {
	var link struct{ Token string }
	f := v.sent()
	ok, err := v.send(f, "POST", "/api/v1/users/{id}/password-link", nil, &link)
	if err != nil {
		return err
	}
	if !ok || link.Token == "" {
		return v.redirect("/settings")
	}
	return v.settingsPage(200, &settingsPage{Link: v.Address() + "/password-link/" + link.Token})
}

func revokeKey(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "DELETE", "/api/v1/api-keys/{id}", nil, nil)
	v.tell(&notice{Text: "The key is revoked."})
	return v.then(ok, err, "/settings", func() error { return v.settingsPage(422, &settingsPage{Key: f}) })
}
