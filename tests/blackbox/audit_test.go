package blackbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/auth/audit"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const auditPath = "/api/v1/audit-log"

type j = testkit.JSON

// auditEntry is an entry of the audit log without its id and time.
type auditEntry struct {
	Action     string   `json:"action"`
	ActorKind  string   `json:"actor_kind"`
	ActorID    string   `json:"actor_id"`
	ActorName  string   `json:"actor_name"`
	Address    string   `json:"address"`
	ObjectKind string   `json:"object_kind"`
	ObjectID   string   `json:"object_id"`
	ObjectName string   `json:"object_name"`
	Fields     []string `json:"fields"`
}

// auditLog returns all entries of a tenant, the newest first.
func auditLog(t *testing.T, admin *testkit.Client) (all []auditEntry) {
	t.Helper()
	for next := ""; ; {
		path := auditPath + "?limit=100"
		if next != "" {
			path += "&after=" + next
		}
		var page struct {
			Items []auditEntry
			Next  *string
		}
		check(t, json.Unmarshal(admin.Get(t, path).Want(200).Body, &page))
		if all = append(all, page.Items...); page.Next == nil {
			return all
		}
		next = *page.Next
	}
}

// Each kind of action leaves exactly one entry, which says who did it, from where, and to what, and no value.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	tenant := in.api.Tenant(t)
	admin := tenant.User(t, "admin")
	key := tenant.Key(t, "operator")
	const secret = "a long and secret phrase"
	created := map[string]*testkit.Response{}
	create := func(path string, body j) string {
		t.Helper()
		a := admin.Post(t, "/api/v1"+path, body).Want(201)
		created[path] = a
		return a.ID()
	}
	login := func(email, password string) *testkit.Response {
		return in.api.Anonymous().Post(t, "/api/v1/auth/login", j{"email": email, "password": password})
	}
	command := func(stdin string, args ...string) { in.must(t, []byte(stdin), args...) }
	by := func(action string, id, name string, fields ...string) auditEntry {
		kind, _, _ := strings.Cut(action, ".")
		return auditEntry{action, "user", admin.Actor.User, "Test admin", "127.0.0.1", kind, id, name,
			append([]string{}, fields...)}
	}
	operator := func(e auditEntry) auditEntry {
		e.ActorKind, e.ActorID, e.ActorName, e.Address = "command_line", "", "", ""
		return e
	}
	self := func(action, id, name, object string) auditEntry {
		return auditEntry{action, "user", id, name, "127.0.0.1", object, id, name, []string{}}
	}
	before := auditLog(t, admin)
	added := func(what string, want ...auditEntry) {
		t.Helper()
		all := auditLog(t, admin)
		if len(want) > 0 && want[0].Action == "sign_in.failed" { // it is written after the response
			testkit.Eventually(t, "there is an entry", func() bool {
				all = auditLog(t, admin)
				return len(all) > len(before)
			})
		}
		if got := all[:len(all)-len(before)]; fmt.Sprintf("%+v", got) !=
			fmt.Sprintf("%+v", append([]auditEntry{}, want...)) {
			t.Errorf("%s: the entries are\n%+v, want\n%+v", what, got, want)
		}
		before = all
	}
	patch := func(path, id string, body j) { t.Helper(); admin.Patch(t, "/api/v1"+path+"/"+id, body).Want(200) }
	remove := func(path, id string) { t.Helper(); admin.Delete(t, "/api/v1"+path+"/"+id).Want(204) }
	restore := func(path, id string) {
		t.Helper()
		if a := admin.Post(t, "/api/v1"+path+"/"+id+"/restore", nil); a.Status >= 300 {
			t.Errorf("restore %s: %d %s", path, a.Status, a.Body)
		}
	}

	// Users and sign-ins.
	bobMail := value.NewID() + "@test.example"
	bob := create("/users", j{"email": bobMail, "name": "Bob", "role": "operator", "password": secret})
	added("user created", by("user.created", bob, "Bob"))
	patch("/users", bob, j{"name": "Robert", "role": "viewer"})
	added("user changed", by("user.changed", bob, "Robert", "name", "role"))
	patch("/users", bob, j{"language": "de"})
	added("language changed", by("user.changed", bob, "Robert", "language"))
	patch("/users", bob, j{"name": "Robert", "role": "viewer", "disabled": false})
	added("nothing changed")
	patch("/users", bob, j{"disabled": true})
	added("user disabled", by("user.disabled", bob, "Robert", "disabled"))
	login(bobMail, secret).Want(401)
	added("sign-in of a disabled user", self("sign_in.failed", bob, "Robert", "user"))
	patch("/users", bob, j{"disabled": false, "role": "operator"})
	added("user enabled", by("user.enabled", bob, "Robert", "role", "disabled"))
	patch("/users", bob, j{"password": secret + " 2"})
	added("password changed", by("user.password_changed", bob, "Robert", "password"))
	token := admin.Post(t, "/api/v1/users/"+bob+"/password-link", nil).Want(200).Text("token")
	added("link created", by("user.password_link_created", bob, "Robert"))
	in.api.Anonymous().Post(t, "/api/v1/auth/password-link", j{"token": token, "new_password": secret + " 3"}).Want(204)
	byLink := self("user.password_set_by_link", bob, "Robert", "user")
	byLink.Fields = []string{"password"}
	added("link used", byLink)
	login(bobMail, "wrong").Want(401)
	added("failed sign-in", self("sign_in.failed", bob, "Robert", "user"))
	login(value.NewID()+"@test.example", "wrong").Want(401)
	session := login(bobMail, secret+" 3").Want(200)
	added("sign-in", self("sign_in", bob, "Robert", "user"))
	refreshed := in.api.Anonymous().Post(t, "/api/v1/auth/refresh", j{"refresh_token": session.Text("refresh_token")}).
		Want(200)
	robert := &testkit.Client{API: in.api, Token: refreshed.Text("access_token")}
	robert.Post(t, "/api/v1/auth/logout", j{"refresh_token": refreshed.Text("refresh_token")}).Want(204)
	added("sign-out", self("sign_out", bob, "Robert", "user"))
	robert.Post(t, "/api/v1/auth/logout", j{"refresh_token": refreshed.Text("refresh_token")}).Want(204)
	login(bobMail, secret+" 3").Want(200)
	added("sign-in", self("sign_in", bob, "Robert", "user"))
	robert.Delete(t, "/api/v1/auth/sessions/"+robert.Get(t, "/api/v1/auth/sessions").Text("items.0.id")).Want(204)
	added("session ended", self("session.ended", bob, "Robert", "user"))
	stolen := login(bobMail, secret+" 3").Want(200).Text("refresh_token")
	for next, n := stolen, 0; n < 2; n++ {
		next = in.api.Anonymous().Post(t, "/api/v1/auth/refresh", j{"refresh_token": next}).Want(200).Text("refresh_token")
	}
	added("sign-in", self("sign_in", bob, "Robert", "user"))
	in.api.Anonymous().Post(t, "/api/v1/auth/refresh", j{"refresh_token": stolen}).WantError(401, "INVALID_TOKEN")
	reused := self("session.reused", bob, "Robert", "user")
	reused.ActorKind, reused.ActorID, reused.ActorName = "unknown", "", ""
	added("token reused", reused)
	robert.Post(t, "/api/v1/auth/password", j{"current_password": secret + " 3", "new_password": secret + " 4"}).Want(204)
	own := self("user.password_changed", bob, "Robert", "user")
	own.Fields = []string{"password"}
	added("own password changed", own)
	command(secret+" 5\n", "user", "passwd", "--email", bobMail, "--password-stdin")
	added("user passwd", operator(by("user.password_changed", bob, "Robert", "password")))
	command(secret+" 3\n", "user", "passwd", "--email", bobMail, "--password-stdin")
	added("user passwd", operator(by("user.password_changed", bob, "Robert", "password")))

	// The second factor.
	otp := func(operation string, body j) *testkit.Response {
		t.Helper()
		return robert.Post(t, "/api/v1/auth/otp"+operation, body)
	}
	setUp := func() (app string, codes *testkit.Response) {
		t.Helper()
		app = otp("", j{"current_password": secret + " 3"}).Want(200).Text("secret")
		added("set-up begun")
		codes = otp("/confirm", j{"otp": testkit.TOTP(app, time.Now())}).Want(200)
		enabled := self("user.otp_enabled", bob, "Robert", "user")
		enabled.Fields = []string{"otp_enabled"}
		added("second factor on", enabled)
		return app, codes
	}
	withCode := func(code string) *testkit.Response {
		return in.api.Anonymous().Post(t, "/api/v1/auth/login", j{"email": bobMail, "password": secret + " 3", "otp": code})
	}
	app, codes := setUp()
	login(bobMail, secret+" 3").WantError(401, "OTP_REQUIRED")
	added("login without a code")
	withCode("abc").WantError(401, "INVALID_OTP")
	added("wrong code", self("user.otp_failed", bob, "Robert", "user"))
	withCode(codes.Text("recovery_codes.0")).Want(200)
	added("recovery code", self("sign_in", bob, "Robert", "user"), self("user.recovery_code_used", bob, "Robert", "user"))
	withCode(testkit.TOTP(app, time.Now().Add(30*time.Second))).Want(200)
	added("code", self("sign_in", bob, "Robert", "user"))
	codes = otp("/recovery-codes", j{"otp": codes.Text("recovery_codes.1")}).Want(200)
	added("new recovery codes", self("user.recovery_codes_renewed", bob, "Robert", "user"),
		self("user.recovery_code_used", bob, "Robert", "user"))
	otp("/disable", j{"current_password": secret + " 3", "otp": codes.Text("recovery_codes.0")}).Want(204)
	disabled := self("user.otp_disabled", bob, "Robert", "user")
	disabled.Fields = []string{"otp_enabled"}
	added("second factor off", disabled, self("user.recovery_code_used", bob, "Robert", "user"))
	setUp()
	admin.Delete(t, "/api/v1/users/"+bob+"/otp").Want(204)
	added("reset", by("user.otp_reset", bob, "Robert", "otp_enabled"))
	admin.Delete(t, "/api/v1/users/"+bob+"/otp").Want(204)
	added("reset again")
	setUp()
	command("", "user", "reset-otp", "--email", bobMail)
	added("user reset-otp", operator(by("user.otp_reset", bob, "Robert", "otp_enabled")))
	command("", "user", "disable", "--email", bobMail)
	added("user disable", operator(by("user.disabled", bob, "Robert", "disabled")))
	remove("/users", bob)
	added("user removed", by("user.removed", bob, "Robert"))
	eve := value.NewID() + "@test.example"
	command(secret+"\n", "user", "add", "--tenant", "tenant "+tenant.ID, "--email", eve, "--name", "Eve", "--role",
		"viewer", "--password-stdin")
	eveID := auditLog(t, admin)[0].ObjectID
	added("user add", operator(by("user.created", eveID, "Eve")))
	command("", "user", "remove", "--email", eve)
	added("user remove", operator(by("user.removed", eveID, "Eve")))

	// API keys.
	label := create("/api-keys", j{"name": "Label", "role": "viewer"})
	added("key created", by("api_key.created", label, "Label"))
	patch("/api-keys", label, j{"name": "Labels"})
	added("key changed", by("api_key.changed", label, "Labels", "name"))
	rotated := admin.Post(t, "/api/v1/api-keys/"+label+"/rotate", nil).Want(200)
	added("key rotated", by("api_key.rotated", label, "Labels", "secret"))
	in.api.Anonymous().With("X-API-Key", rotated.Text("key")).Get(t, "/api/v1/spools").Want(200)
	remove("/api-keys", label)
	added("key revoked", by("api_key.revoked", label, "Labels", "revoked"))
	remove("/api-keys", label)
	added("key revoked again")
	command("", "key", "add", "--tenant", "tenant "+tenant.ID, "--name", "Printers", "--role", "printer")
	printerKey := auditLog(t, admin)[0].ObjectID
	added("key add", operator(by("api_key.created", printerKey, "Printers")))
	command("", "key", "revoke", printerKey)
	added("key revoke", operator(by("api_key.revoked", printerKey, "Printers", "revoked")))

	// Settings.
	admin.Patch(t, "/api/v1/settings", j{"currency": "EUR", "time_zone": "Europe/Berlin", "language": "de"}).Want(200)
	added("settings", by("settings.changed", "", "tenant "+tenant.ID, "time_zone", "currency", "language"))
	admin.Patch(t, "/api/v1/settings", j{"currency": "EUR"}).Want(200)
	added("the same settings")
	rule := auditEntry{"settings.changed", "user", admin.Actor.User, "Test admin", "", "settings", "",
		"tenant " + tenant.ID, []string{"second_factor"}}
	check(t, in.api.DB.Write(db.As(t.Context(), admin.Actor), db.SQL(`update tenants set second_factor = 'all'`),
		db.SQL(`update tenants set second_factor = 'optional'`)))
	added("the rule for second factors", rule, rule)
	hook := create("/webhooks", j{"url": "https://hooks.test.example/s3cret", "events": []string{"spool.empty"},
		"description": "Ledger"})
	added("webhook created", by("webhook.created", hook, "Ledger"))
	patch("/webhooks", hook, j{"events": []string{"spool.*"}})
	added("webhook changed", by("webhook.changed", hook, "Ledger", "events"))
	patch("/webhooks", hook, j{"disabled": true})
	added("webhook disabled", by("webhook.disabled", hook, "Ledger", "disabled"))
	patch("/webhooks", hook, j{"disabled": false})
	added("webhook enabled", by("webhook.enabled", hook, "Ledger", "disabled"))
	hookSecret := admin.Post(t, "/api/v1/webhooks/"+hook+"/rotate", nil).Want(200).Text("secret")
	added("webhook rotated", by("webhook.rotated", hook, "Ledger", "secret"))
	remove("/webhooks", hook)
	added("webhook removed", by("webhook.removed", hook, "Ledger"))
	shop := create("/shops", j{"kind": "woocommerce", "name": "Our shop"})
	added("shop created", by("shop.created", shop, "Our shop"))
	patch("/shops", shop, j{"name": "Shop"})
	added("shop changed", by("shop.changed", shop, "Shop", "name"))
	admin.Post(t, "/api/v1/shops/"+shop+"/rotate", nil).Want(200)
	added("shop rotated", by("shop.rotated", shop, "Shop", "secret"))
	remove("/shops", shop)
	added("shop removed", by("shop.removed", shop, "Shop"))
	printer := create("/printers", j{"name": "Mk4"})
	added("printer created", by("printer.created", printer, "Mk4"))
	patch("/printers", printer, j{"location": "Shelf", "status": "maintenance"})
	added("printer changed", by("printer.changed", printer, "Mk4", "location"))
	connect := func(body j) {
		t.Helper()
		admin.Do(t, "PUT", "/api/v1/printers/"+printer+"/connection", body).Want(200)
	}
	connect(j{"kind": "octoprint", "address": "octopi.test.example", "secret": "0123456789"})
	added("connection created", by("printer_connection.created", printer, "octoprint"))
	connect(j{"kind": "octoprint", "address": "octopi.test.example"})
	added("the same connection")
	connect(j{"kind": "octoprint", "address": "octopi.test.example", "secret": "9876543210"})
	added("secret of a connection", by("printer_connection.rotated", printer, "octoprint", "secret"))
	connect(j{"kind": "moonraker", "address": "octopi.test.example"})
	added("connection changed", by("printer_connection.rotated", printer, "moonraker", "kind", "secret"))
	connect(j{"kind": "moonraker", "address": "voron.test.example"})
	added("connection changed", by("printer_connection.changed", printer, "moonraker", "address"))
	admin.Delete(t, "/api/v1/printers/"+printer+"/connection").Want(204)
	added("connection removed", by("printer_connection.removed", printer, "moonraker"))
	signOn := func(body j) { t.Helper(); admin.Do(t, "PUT", "/api/v1/sign-on", body).Want(200) }
	const issuer = "https://login.test.example"
	signOn(j{"issuer": issuer, "client_id": "farm", "client_secret": "0123456789"})
	added("sign-on created", by("sign_on.created", "", issuer))
	signOn(j{"issuer": issuer, "client_id": "farm"})
	added("the same sign-on")
	signOn(j{"issuer": issuer, "client_id": "farm", "email_domain": "test.example"})
	added("sign-on changed", by("sign_on.changed", "", issuer, "email_domain"))
	signOn(j{"issuer": issuer, "client_id": "farm", "email_domain": "test.example", "client_secret": "9876543210"})
	added("secret of the sign-on", by("sign_on.rotated", "", issuer, "secret"))
	admin.Delete(t, "/api/v1/sign-on").Want(204)
	added("sign-on removed", by("sign_on.removed", "", issuer))
	field := create("/custom-fields", j{"entity": "spool", "key": "shelf", "name": "Shelf", "type": "text"})
	added("field created", by("custom_field.created", field, "Shelf"))
	patch("/custom-fields", field, j{"name": "Rack"})
	added("field changed", by("custom_field.changed", field, "Rack", "name"))
	remove("/custom-fields", field)
	added("field removed", by("custom_field.removed", field, "Rack"))

	// Daily work is not in the log.
	vendor := create("/vendors", j{"name": "Acme"})
	filament := create("/filaments", j{"name": "Galaxy", "vendor_id": vendor, "material_type": "PLA", "color": "Blue",
		"diameter_mm": 1.75})
	create("/spools", j{"filament_id": filament, "net_weight_grams": 1000})
	unused := create("/vendors", j{"name": "Unused"})
	spool := create("/spools", blackSpool)
	other := create("/spools", j{"material_type": "PLA", "color": "White", "diameter_mm": 1.75, "net_weight_grams": 1000})
	product := create("/products", j{"name": "Vase"})
	order := create("/orders", j{"source": "etsy", "reference": "A-17", "customer": "Mallory",
		"items": []j{{"product_id": product, "quantity": 2}}})
	level := create("/stock-levels", j{"material_type": "PLA", "color": "Red", "minimum_grams": 500})
	for range 2 {
		key.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 5}).Want(200)
	}
	run := admin.Post(t, "/api/v1/production-runs", j{"printer_id": printer, "status": "in_progress",
		"items":     []j{{"product_id": product, "quantity": 1}},
		"materials": []j{{"spool_id": spool, "estimated_weight_grams": 10}}}).Want(201).ID()
	admin.Post(t, "/api/v1/production-runs/"+run+"/complete",
		j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}}).Want(200)
	added("daily work")

	// Corrections.
	usage := key.Get(t, "/api/v1/spools/"+spool+"/usage?sort_order=asc")
	key.Post(t, "/api/v1/spools/"+spool+"/usage/"+usage.Text("items.1.id")+"/reverse", nil).Want(200)
	byKey := auditEntry{"usage.reversed", "api_key", key.Actor.APIKey, "Test operator", "127.0.0.1", "spool", spool,
		"#2 PLA Black", []string{}}
	added("usage reversed", byKey)
	key.Post(t, "/api/v1/spools/"+spool+"/usage/"+usage.Text("items.2.id")+"/move", j{"spool_id": other}).Want(200)
	byKey.Action = "usage.moved"
	added("usage moved", byKey)
	key.Post(t, "/api/v1/spools/"+spool+"/refill", nil).Want(200)
	byKey.Action = "spool.refilled"
	added("spool refilled", byKey)
	admin.Post(t, "/api/v1/production-runs/"+run+"/correct", j{"actual_print_time_hours": 2}).Want(200)
	added("run corrected", by("run.corrected", run, "Mk4"))
	admin.Post(t, "/api/v1/production-runs/"+run+"/reopen", nil).Want(200)
	added("run reopened", by("run.reopened", run, "Mk4"))

	// Removals.
	for _, c := range []struct{ path, kind, id, name string }{
		{"/production-runs", "run", run, "Mk4"}, {"/orders", "order", order, "etsy A-17"},
		{"/products", "product", product, "Vase"}, {"/spools", "spool", other, "#3 PLA White"},
		{"/filaments", "filament", filament, "#1 PLA Blue"}, {"/printers", "printer", printer, "Mk4"},
	} {
		remove(c.path, c.id)
		added("remove "+c.kind, by(c.kind+".removed", c.id, c.name))
		restore(c.path, c.id)
		added("restore "+c.kind, by(c.kind+".restored", c.id, c.name))
	}
	remove("/vendors", unused)
	added("vendor removed", by("vendor.removed", unused, "Unused"))
	remove("/stock-levels", level)
	added("level removed", by("stock_level.removed", level, "PLA Red"))

	// Exports and imports.
	moved := func(action, what string) auditEntry { e := by(action, "", ""); e.ObjectKind = what; return e }
	for _, what := range []string{"spools", "vendors", "filaments", "products", "orders", "printers"} {
		admin.Get(t, "/api/v1/"+what+"/export").Want(200)
		added("export "+what, moved("data.exported", what))
	}
	admin.Get(t, "/api/v1/production-runs/export").Want(200)
	admin.Get(t, "/api/v1/reports/usage/export").Want(200)
	added("exports", moved("data.exported", "usage"), moved("data.exported", "production-runs"))
	admin.Get(t, "/api/v1/tenant/export").Want(200)
	added("export of the farm", moved("data.exported", "farm"))
	file := in.export(t, tenant.ID, "--users", "--keys", "--webhooks")
	added("tenant export", operator(moved("data.exported", "farm")))
	csv := "name\nImported vendor\n"
	admin.With("Content-Type", "text/csv").Do(t, "POST", "/api/v1/vendors/import?dry_run=true", csv).Want(200)
	added("dry run")
	list := admin.With("Content-Type", "text/csv").Do(t, "POST", "/api/v1/vendors/import", csv).Want(200)
	added("import", moved("data.imported", "vendors"))
	admin.Post(t, "/api/v1/imports/"+list.Text("import_id")+"/undo", nil).Want(200)
	added("undo of an import", moved("data.import_undone", "vendors"),
		by("vendor.removed", list.Text("rows.0.id"), "Imported vendor"))
	gcode, err := os.ReadFile(absolutePath(t, "catalog/slicer/testdata/prusaslicer.gcode"))
	check(t, err)
	sliced := admin.With("Content-Type", "application/octet-stream")
	sliced.Do(t, "POST", "/api/v1/products/from-file?filename=a.gcode&dry_run=true", gcode).Want(200)
	added("dry run of a sliced file")
	sliced.Do(t, "POST", "/api/v1/products/from-file?filename=a.gcode", gcode).Want(200)
	added("import of a sliced file", moved("data.imported", "products"))

	// What fails has no entry.
	admin.Patch(t, "/api/v1/users/"+value.NewID(), j{"role": "viewer"}).WantError(404, "NOT_FOUND")
	admin.Post(t, "/api/v1/users", j{"email": admin.Email, "name": "x", "role": "viewer"}).WantError(409, "EMAIL_TAKEN")
	err = in.api.DB.Tx(db.As(t.Context(), admin.Actor), func(ctx context.Context) error {
		check(t, in.api.DB.Write(ctx, db.SQL(`update users set name = 'Rolled back'`), audit.Export("spools")))
		return errors.New("rolled back")
	})
	testkit.Equal(t, err.Error(), "rolled back", "error")
	added("nothing")

	// Nobody in the farm changes or deletes an entry, and no other farm sees one.
	for _, sql := range []string{`update audit_log set action = 'x'`, `delete from audit_log`, `truncate audit_log`} {
		if err := in.api.DB.Write(db.As(t.Context(), admin.Actor), db.SQL(sql)); err == nil {
			t.Errorf("%s: no error", sql)
		}
	}
	if other := auditLog(t, in.api.Tenant(t).User(t, "admin")); len(other) != 1 { // its own user
		t.Errorf("another farm sees %+v", other)
	}
	for _, c := range []*testkit.Client{tenant.User(t, "operator"), tenant.User(t, "viewer"), key} {
		c.Get(t, auditPath).Want(403)
	}
	before = auditLog(t, admin)

	// No secret and no value is in the log.
	text := strings.Join(in.rows(t, tenant.ID)["audit_log"], "\n")
	for _, word := range []string{secret, bobMail, "s3cret", rotated.Text("key"), hookSecret, token, "Mallory", "pbkdf2",
		session.Text("refresh_token"), created["/api-keys"].Text("key"), created["/shops"].Text("secret")} {
		if word == "" || word == "null" || strings.Contains(text, word) {
			t.Errorf("%q is in the log", word)
		}
	}

	// A restore brings the log along.
	in.must(t, nil, "tenant", "remove", "tenant "+tenant.ID, "--yes")
	testkit.Equal(t, len(in.rows(t, tenant.ID)["audit_log"]), 0, "entries of a removed farm")
	in.must(t, file, "tenant", "import", "-")
	if restored := auditLog(t, admin); len(restored) < 50 || restored[0].Action != "data.exported" {
		t.Errorf("%d entries are restored: %+v", len(restored), restored[:1])
	}

	// Filters.
	for query, want := range map[string]int{
		"?action=user.disabled": 2, "?action=user.disabled,user.enabled": 3, "?actor_id=" + bob: 20,
		"?created_to=2020-01-01": 0, "?created_from=2020-01-01&action=session.ended": 1,
	} {
		testkit.Equal(t, admin.Get(t, auditPath+query).Want(200).Text("total"), fmt.Sprint(want), "entries of %s", query)
	}
	admin.Get(t, auditPath+"?action=x").Fields("action")
	known := map[string]bool{"sign_in.more_failed": true, "user.more_otp_failed": true, "vendor.restored": true} // rare
	for _, e := range before {
		known[e.Action] = true
	}
	for _, action := range audit.Action("").Enum() {
		if !known[action] {
			t.Errorf("no entry has the action %s", action)
		}
	}
}

// Many wrong passwords leave ten entries and one that stands for the rest.
func TestFailedSignInsAreBounded(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	tenant := testkit.New(t, testkit.Options{DB: d}, testkit.Features...).Tenant(t)
	admin := tenant.User(t, "admin")
	ctx := db.From(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), "203.0.113.7")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := d.Write(ctx, audit.FailedSignIn(admin.Actor.User)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, e := range auditLog(t, admin)[:11] {
		count[e.Action+" "+e.Address]++
	}
	want := map[string]int{"sign_in.failed 203.0.113.7": 10, "sign_in.more_failed 203.0.113.7": 1}
	if !maps.Equal(count, want) {
		t.Errorf("the entries are %v, want %v", count, want)
	}
}

// Entries older than 400 days are deleted, and no others.
func TestOldEntriesAreDeleted(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	tenant := testkit.New(t, testkit.Options{DB: d}, testkit.Features...).Tenant(t)
	admin := tenant.User(t, "admin")
	check(t, d.Write(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), db.SQL(`
		insert into audit_log (id, created_at, action, actor_kind)
		select gen_random_uuid(), now() - make_interval(days => n), 'sign_out', 'service'
		from generate_series(395, 405) n, generate_series(1, 250)`)))
	check(t, audit.Trim(t.Context(), d))
	a := admin.Get(t, auditPath+"?action=sign_out&sort_order=asc").Want(200)
	testkit.Equal(t, a.Text("total"), "1250", "entries that remain") // the 400th day has passed for its entries
}

// The log of the service has each entry of the service in a line of its own, once its transaction is committed.
func TestAuditLines(t *testing.T) {
	t.Parallel()
	var lines testkit.Log
	d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 4,
		Log: slog.New(slog.NewJSONHandler(&lines, nil))})
	check(t, err)
	t.Cleanup(d.Close)
	proxies := func(c *server.Config) { c.TrustedProxies, _ = server.ParsePrefixes("127.0.0.1") }
	tenant := testkit.New(t, testkit.Options{DB: d, Change: proxies}, testkit.Features...).Tenant(t)
	admin := tenant.User(t, "admin").With("X-Forwarded-For", "198.51.100.9, 203.0.113.77")
	admin.Patch(t, "/api/v1/settings", j{"currency": "EUR"}).Want(200)
	admin.Post(t, "/api/v1/users", j{"email": admin.Email, "name": "x", "role": "viewer"}).WantError(409, "EMAIL_TAKEN")
	check(t, d.DryRun(db.As(t.Context(), admin.Actor), func(ctx context.Context) error {
		return d.Write(ctx, audit.Export("spools"))
	}))
	check(t, d.Write(db.From(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), db.CommandLine), audit.Export("orders")))
	entry := admin.Get(t, auditPath+"?action=settings.changed").Want(200).Text("items.0.id")
	var found []string
	for line := range strings.Lines(lines.String()) {
		if strings.Contains(line, tenant.ID) && strings.Contains(line, `"audit"`) &&
			!strings.Contains(line, `"user.created"`) {
			found = append(found, line[strings.Index(line, `"msg"`):])
		}
	}
	want := []string{`"msg":"audit","action":"settings.changed","tenant":"` + tenant.ID + `","entry":"` + entry +
		`","actor_kind":"user","actor_id":"` + admin.Actor.User + `","actor_name":"Test admin","address":"203.0.113.77",` +
		`"object_kind":"settings","object_name":"tenant ` + tenant.ID + `","fields":["currency"]}` + "\n"}
	testkit.EqualSlices(t, found, want, "lines of the log")
}
