package web

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"

	"spoolwright/server"
	"spoolwright/value/language"
)

// watchKinds are the kinds of connections to printers, with their names for people.
var watchKinds = []option{{"moonraker", "Moonraker (Klipper)"}, {"octoprint", "OctoPrint"},
	{"prusalink", "PrusaLink"}, {"bambu", "Bambu Lab"}}

// watchedPrinter is the page of the connection of a printer, for admins.
type watchedPrinter struct {
	Printer printer
	Kind    string // that the visitor has chosen, or the one of the connection
	Form    *form
	Now     *watchedAt // nil without a connection
	Test    *watchTest // the result of a test, or nil
}

// watchedAt is the connection of a printer, as the API returns it.
type watchedAt struct {
	Kind, Address, Serial, Fingerprint string
	HasSecret                          bool `json:"has_secret"`
}

// watchTest is the result of a test of a connection, as the API returns it.
type watchTest struct {
	OK                                      bool
	Problem, Text, State, File, Fingerprint string
}

// Kinds returns the kinds to choose from.
func (p *watchedPrinter) Kinds() []option { return watchKinds }

// Name returns the name of the kind.
func (p *watchedPrinter) Name() string { return nameOf(watchKinds, p.Kind) }

// Hint returns what the address of the kind looks like.
func (p *watchedPrinter) Hint(v translator) string {
	switch p.Kind {
	case "moonraker":
		return v.t("Such as %s", "http://192.168.1.20:7125")
	case "bambu":
		return v.t("The IP address on the printer's screen, such as %s", "192.168.1.20")
	}
	return v.t("Such as %s", "http://192.168.1.20")
}

// Key returns what the secret of the kind is called, and where it is.
func (p *watchedPrinter) Key() (name []language.Text) {
	return map[string][]language.Text{
		"moonraker": {"API key", "Only if the address of the service is not one of the trusted_clients of Moonraker"},
		"octoprint": {"API key", "The application key of a user with read-only access is enough"},
		"prusalink": {"API key or password", "Settings, Network, PrusaLink. A password as user:password"},
		"bambu":     {"Access code", "Settings, LAN only, on the printer's screen. Developer mode is not necessary"},
	}[p.Kind]
}

func showConnection(v *visit) error { return v.connectionPage(200, nil, nil) }

// watchedAt reads the connection of the printer. Without one, the form has neither values nor a tag.
func (v *visit) watchedAt() (*watchedAt, *form, error) {
	f := v.newForm()
	answer := v.call(http.MethodGet, "/api/v1/printers/{id}/connection", nil, nil)
	if answer.Status == 404 {
		return nil, f, nil
	}
	if err := answer.Err(); err != nil {
		return nil, f, err
	}
	now := &watchedAt{}
	f.Tag = answer.Header.Get("ETag")
	err := json.Unmarshal(answer.Body, now)
	for name, text := range map[string]string{"kind": now.Kind, "address": now.Address, "serial": now.Serial} {
		f.Values.Set(name, text)
	}
	return now, f, err
}

// connectionPage shows the connection of the printer. The form f was refused, if it is not nil.
func (v *visit) connectionPage(status int, f *form, test *watchTest) error {
	p := &watchedPrinter{Test: test}
	if err := v.fetch(get("/api/v1/printers/{id}", &p.Printer)); err != nil {
		return err
	}
	var err error
	if p.Now, p.Form, err = v.watchedAt(); err != nil {
		return err
	}
	p.Form.Was = maps.Clone(p.Form.Values)
	if kind := v.r.URL.Query().Get("kind"); nameOf(watchKinds, kind) != kind {
		p.Form.Values.Set("kind", kind)
	}
	if f != nil {
		p.Form = f
	}
	if kind := p.Form.Values.Get("kind"); nameOf(watchKinds, kind) != kind {
		p.Kind = kind
	}
	return v.show(status, "watching", v.t("Connection of %s", p.Printer.Name), p)
}

// saveConnection sets the connection. An empty secret keeps the present one.
func saveConnection(v *visit) error {
	const path = "/api/v1/printers/{id}/connection"
	f := v.sent()
	body := func(f *form) map[string]any {
		return f.body(field{"kind", text}, field{"address", text}, field{"serial", text}, field{"secret", text})
	}
	now, ok := func() (*form, error) { _, f, err := v.watchedAt(); return f, err }, false
	present, err := now()
	if err == nil && f.Tag == "" && present.Tag == "" {
		ok, err = v.send(f, http.MethodPut, path, body(f), nil)
	} else if err == nil {
		ok, err = v.change(f, editing{http.MethodPut, path, body, now, nil})
	}
	f.Values.Del("secret")
	v.tell(&notice{Text: v.t("The connection is saved. Test it.")})
	return v.then(ok, err, v.here("/printers")+"/connection", func() error { return v.connectionPage(422, f, nil) })
}

// testConnection tests the connection, and shows the result.
func testConnection(v *visit) error {
	f, test := v.sent(), &watchTest{}
	ok, err := v.send(f, http.MethodPost, "/api/v1/printers/{id}/connection/test", nil, test)
	if err != nil {
		return err
	}
	if !ok {
		return v.connectionPage(422, nil, &watchTest{Text: f.Problem})
	}
	return v.connectionPage(200, nil, test)
}

// trustCertificate stores the certificate that a test has shown.
func trustCertificate(v *visit) error {
	f := v.sent()
	now, present, err := v.watchedAt()
	if err != nil || now == nil {
		return cmp.Or(err, error(server.ErrNotFound))
	}
	f.Tag = present.Tag
	ok, err := v.send(f, http.MethodPut, "/api/v1/printers/{id}/connection", map[string]any{"kind": now.Kind,
		"address": now.Address, "serial": now.Serial, "fingerprint": f.Values.Get("fingerprint")}, nil)
	v.tell(&notice{Text: v.t("The certificate is trusted from now on.")})
	return v.then(ok, err, v.here("/printers")+"/connection", func() error {
		return v.connectionPage(422, nil, &watchTest{Text: f.Problem})
	})
}

func removeConnection(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, http.MethodDelete, "/api/v1/printers/{id}/connection", nil, nil)
	v.tell(&notice{Text: v.t("The connection is removed with its key.")})
	return v.then(ok, err, v.here("/printers"), func() error { return v.connectionPage(422, f, nil) })
}
