package web

import (
	"slices"
	"strings"
	"time"

	"spoolwright/db"
)

// settingsTabs are the pages of the settings, each with the forms whose addresses are below its own.
var settingsTabs = []word{{"/settings", "Farm"}, {"/settings/users", "People"},
	{"/settings/sign-on", "Sign-on"}, {"/settings/keys", "API keys"},
	{"/settings/fields", "Custom fields"}, {"/settings/shops", "Shops"},
	{"/settings/webhooks", "Webhooks"}, {"/settings/backup", "Backup"}, {"/settings/audit", "Log|of changes"}}

// Tabs returns the pages of the settings.
func (v *visit) Tabs() []option { return v.options(settingsTabs) }

// Tab returns the address of the page of the settings to which the address of the page or form belongs.
func (v *visit) Tab() string {
	for _, tab := range settingsTabs[1:] {
		if v.Path() == tab.Value || strings.HasPrefix(v.Path(), tab.Value+"/") {
			return tab.Value
		}
	}
	return settingsTabs[0].Value
}

// TabName returns the name of the page of the settings.
func (v *visit) TabName() string {
	here := func(tab word) bool { return tab.Value == v.Tab() }
	return v.t(settingsTabs[slices.IndexFunc(settingsTabs, here)].Name)
}

type settingsPage struct {
	Form    *form
	Place   *form   // the form of the address of the farm
	Try     *qrCode // the code of an address that is proposed, for a phone to try, or nil
	Users   struct{ Items []account }
	Keys    struct{ Items []apiKey }
	Key     *form
	Extra   [3]customFields // the custom fields of spools, filaments and vendors
	New     *connection     // the key that was just created, or nil
	Samples bool            // whether the farm has sample data
	Guest   *form           // the form that invites a person
	Link    *invitation     // the password link that was just created, or nil
}

type account struct {
	ID, Email, Name, Role string
	Disabled              bool
	Invited               bool
	OTPEnabled            bool       `json:"otp_enabled"`
	SignOn                bool       `json:"sign_on"`
	LinkEmail             string     `json:"link_email"` // waiting, sent, refused or ""
	LinkEmailAt           *time.Time `json:"link_email_at"`
	LinkEmailError        string     `json:"link_email_error"`
}

// State returns the role, and why the user cannot sign in.
func (a account) State(v view) string {
	switch {
	case a.Disabled:
		return v.t("%s, disabled|a role", v.label(a.Role))
	case a.Invited:
		return v.t("%s, invited|a role", v.label(a.Role))
	}
	return v.label(a.Role)
}

type apiKey struct {
	ID, Name, Role, Hint, Key string
	CreatedAt                 *time.Time `json:"created_at"`
	LastUsedAt                *time.Time `json:"last_used_at"`
}

var roles = []word{{"viewer", "Viewer: sees everything"}, {"operator", "Operator: also changes it"},
	{"admin", "Admin: also users and settings"}}

func (p *settingsPage) options(words []word) []option { return p.Form.read.visit.options(words) }

// KeyRoles returns the roles of API keys, to choose from.
func (p *settingsPage) KeyRoles() []option {
	return p.options([]word{{"printer", "Printer: reports its use"}, {"viewer", "Viewer: reads"},
		{"operator", "Operator: also writes"}, {"watcher", "Watcher: sends the states of printers"}})
}

var users = &editor{api: "/api/v1/users", path: "/settings/users", noun: userNoun, back: "/settings/users",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name|of a person", "required", nil},
		{field{"email", text}, "E-mail", "type=email;required", nil},
		{field{"role", text}, "Role", "", roles},
		{field{"disabled", flag}, "Sign-in", "", []word{{"false", "Allowed"}, {"true", "Not allowed"}}},
	}}

// Fields returns all custom fields.
func (p *settingsPage) Fields() []customField {
	return slices.Concat(p.Extra[0].Items, p.Extra[1].Items, p.Extra[2].Items)
}

func showSettings(v *visit) error { return v.settingsPage(200, &settingsPage{}) }

func (v *visit) settingsPage(status int, p *settingsPage) error {
	now := v.newForm()
	var values map[string]any
	var reads []read
	switch v.Tab() {
	case "/settings":
		reads = []read{{path: "/api/v1/settings", into: &values, tag: &now.Tag}}
	case "/settings/users":
		reads = []read{get("/api/v1/users?limit=100&sort_by=name&sort_order=asc", &p.Users)}
	case "/settings/keys":
		reads = []read{get("/api/v1/api-keys?limit=100&revoked=false", &p.Keys)}
	case "/settings/fields":
		reads = []read{customRead("spool", &p.Extra[0]), customRead("filament", &p.Extra[1]),
			customRead("vendor", &p.Extra[2])}
	case "/settings/backup":
		steps, err := v.site.Start.Steps(db.As(v.r.Context(), v.Actor))
		if err != nil {
			return err
		}
		p.Samples = steps != nil && steps.Samples
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	now.fill(values)
	if p.Form == nil {
		p.Form = now
	}
	if p.Place == nil {
		p.Place = v.newForm()
		p.Place.Tag = now.Tag
		p.Place.fill(values)
		if v.IsProposed() && !v.AddressIsLocal() {
			p.Place.Values.Set("farm_url", v.Address())
		}
	}
	if v.Tab() == "/settings" && !v.AddressIsLocal() {
		code, err := newQR(v.Address() + "/")
		if err != nil {
			return err
		}
		p.Try = &code
	}
	if p.Key == nil {
		p.Key = v.newForm()
	}
	if p.Guest == nil {
		p.Guest = v.newForm()
	}
	return v.show(status, "settings", v.TabName()+" · "+v.t("Settings"), p)
}

var farmFields = []field{{"time_zone", text}, {"currency", text}, {"labour_hour_cost", number},
	{"machine_hour_cost", number}, {"machine_power_watts", number}, {"energy_kwh_cost", number},
	{"failure_rate_percent", number}, {"failure_rate_measured", optionalFlag},
	{"sales_tax_percent", number}, {"prices_include_tax", optionalFlag}, {"exchange_rates", rates},
	{"assemble_on_delivery", optionalFlag}, {"confirm_runs", text}, {"second_factor", text}, {"language", text}}

// ConfirmRules returns the choice of which runs of watched printers wait for a person.
func (p *settingsPage) ConfirmRules() []option {
	return p.options([]word{{"doubts", "Failures and doubts"}, {"all", "All runs"}})
}

// FactorRules returns the choice of who must have a second factor.
func (p *settingsPage) FactorRules() []option {
	return p.options([]word{{"optional", "Nobody"}, {"admins", "Admins"}, {"all", "Everybody"}})
}

// Included returns the choice whether prices include tax.
func (p *settingsPage) Included() []option {
	return p.options([]word{{"false", "Are without tax"}, {"true", "Include tax"}})
}

// Measured returns the choice of the source of the failure rate.
func (p *settingsPage) Measured() []option {
	return p.options([]word{{"false", "The rate above"}, {"true", "The last 90 days, by product"}})
}

// Assembling returns the choice whether a delivery assembles kits that are not in stock.
func (p *settingsPage) Assembling() []option {
	return p.options([]word{{"true", "Assembles them from their parts"}, {"false", "Assembles nothing"}})
}

func changeSettings(v *visit) error {
	f := v.sent()
	ok, err := v.edit(f, "/api/v1/settings", farmFields)
	v.tell(&notice{Text: v.t("The settings are saved.")})
	return v.then(ok, err, "/settings", func() error { return v.settingsPage(422, &settingsPage{Form: f}) })
}

// changeAddress sets the address of the farm.
func changeAddress(v *visit) error {
	f := v.sent()
	ok, err := v.edit(f, "/api/v1/settings", []field{{"farm_url", text}})
	v.tell(&notice{Text: v.t("The address of the farm is saved.")})
	return v.then(ok, err, "/settings", func() error { return v.settingsPage(422, &settingsPage{Place: f}) })
}

// exportFarm sends the file with all data of the farm.
func exportFarm(v *visit) error {
	v.site.server.Forward(v.w, v.r, v.caller(), "/api/v1/tenant/export")
	return nil
}

// createKey creates an API key, and shows it once.
func createKey(v *visit) error {
	p := &settingsPage{Key: v.sent()}
	c, err := v.createKey(p.Key, p.Key.body(field{"name", text}, field{"role", text}))
	switch {
	case err != nil:
		return err
	case p.Key.Problem != "" || len(p.Key.Errors) > 0:
		return v.settingsPage(422, p)
	case c == nil:
		return v.redirect("/settings/keys")
	}
	return v.settingsPage(200, &settingsPage{New: c})
}

func (v *visit) keyRefused(f *form) error { return v.settingsPage(422, &settingsPage{Key: f}) }
