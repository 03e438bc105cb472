package web

import (
	"net/http"
	"strings"
)

// connection is a new API key, whose secret is shown once, with the lines for the software that uses the key.
type connection struct {
	Key  apiKey
	base string // the address of the service
}

// At returns the address of the service with the key as the password.
func (c connection) At() string {
	return strings.Replace(c.base, "://", "://x:"+c.Key.Key+"@", 1)
}

// createKey creates an API key from the body. It returns nil without an error if the API refuses the body, or if the
// form f was sent twice: the service does not store the secret.
func (v *visit) createKey(f *form, body map[string]any) (*connection, error) {
	c := connection{base: v.Address()}
	if _, err := v.send(f, http.MethodPost, "/api/v1/api-keys", body, &c.Key); err != nil || c.Key.Key == "" {
		return nil, err
	}
	return &c, nil
}

// connectPrinter creates a key for the printer of the page, and shows the key once. The key has the name of the
// printer.
func connectPrinter(v *visit) error {
	var p printer
	if err := v.fetch(get("/api/v1/printers/{id}", &p)); err != nil {
		return err
	}
	f := v.sent()
	c, err := v.createKey(f, map[string]any{"name": p.Name, "role": "printer", "printer_id": p.ID})
	switch {
	case err != nil:
		return err
	case f.Problem != "":
		return v.printerPage(422, "connect", f)
	case c == nil:
		return v.redirect(v.here("/printers"))
	}
	return v.showPrinterWith(200, "", nil, c)
}

// disconnectPrinter revokes a key of the printer of the page.
func disconnectPrinter(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, http.MethodDelete, "/api/v1/api-keys/{part}", nil, nil)
	v.tell(&notice{Text: v.t("The key is revoked.")})
	return v.then(ok, err, v.here("/printers"), func() error { return v.printerPage(422, "connect", f) })
}
