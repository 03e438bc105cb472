package blackbox_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// aboutNoField are the codes of errors with the status 400 or 409 that concern the state of a resource or a limit, and
// no field of the request. A code that concerns a field of other operations has the route before it.
var aboutNoField = []string{"RUN_NOT_OPEN", "RUN_HAS_NO_MATERIALS", "RUN_ALREADY_COMPLETED", "PRODUCT_IN_USE",
	"ORDER_ITEM_IN_USE", "USER_LIMIT", "API_KEY_LIMIT", "API_KEY_REVOKED", "WEBHOOK_LIMIT", "WEBHOOK_DISABLED",
	"WEBHOOK_UNSIGNED", "STOCK_LEVEL_LIMIT", "ORDER_NOT_OPEN", "COMPONENT_HIDDEN", "PRODUCT_HIDDEN", "PLAN_TOO_LARGE",
	"RUN_NOT_ENDED", "MATERIAL_EXCHANGED", "PRINTER_BUSY", "USAGE_ALREADY_REVERSED", "USAGE_OF_RUN",
	"USAGE_NOT_REVERSIBLE", "USAGE_NOT_MOVABLE", "SHOP_LIMIT", "USER_DISABLED", "NO_COMPONENTS", "ENTRY_REVERSED",
	"ENTRY_NOT_REVERSIBLE", "ENTRY_OF_RUN", "DELIVERY_RETURNED", "DELIVERED_AGAIN", "OTP_ENABLED", "OTP_NOT_BEGUN",
	"VARIANT_LIMIT", "POST /api/v1/products/{id}/materials VARIANT_FIELD",
	"PATCH /api/v1/products/{id}/materials/{material_id} VARIANT_FIELD",
	"POST /api/v1/products/{id}/components VARIANT_FIELD",
	"PATCH /api/v1/products/{id}/components/{component_id} VARIANT_FIELD",
	"POST /api/v1/auth/otp/disable OTP_NOT_ENABLED",
	"POST /api/v1/auth/otp/recovery-codes OTP_NOT_ENABLED", "POST /api/v1/piece-entries/{id}/reverse NOT_ENOUGH_PIECES"}

// fieldName matches the name of a field in an error: a field of the body, or one of an entry of a list, or a field of
// an entry of a list in that.
var fieldName = regexp.MustCompile(`^(\w+)(?:\[\d+\](?:\.(\w+)(?:\[\d+\]\.\w+)?)?)?$`)

// severalField matches the name of a field of one of several resources in an error.
var severalField = regexp.MustCompile(`^(items)\[\d+\]()(?:\.[\w.\[\]]+)?$`)

// wantFields fails the test unless an error response names fields that the body of the route has, if its code is that
// of an error about fields. A field that is computed may make a 422.
func (w *testAPI) wantFields(t *testing.T, route string, a *testkit.Response) {
	t.Helper()
	var e struct {
		Detail, Code string
		Errors       []server.FieldError
	}
	check(t, json.Unmarshal(a.Body, &e))
	i := slices.IndexFunc(w.operations, func(op *operation) bool { return op.Pattern == route })
	op := w.operations[i]
	// A request without a body has no field that an error could concern.
	noField := slices.Contains(aboutNoField, e.Code) || slices.Contains(aboutNoField, route+" "+e.Code)
	if len(e.Errors) == 0 && a.Status != 404 && len(op.fields) > 0 && !noField {
		t.Errorf("%s: errors is missing: %s", a.What, a.Body)
	}
	for _, f := range e.Errors {
		m := fieldName.FindStringSubmatch(f.Field)
		if _, changes := op.entries["items"]["changes"]; changes || op.entries["items"] != nil &&
			strings.HasSuffix(op.Path(), "/batch") {
			m = severalField.FindStringSubmatch(f.Field)
		}
		known := m != nil && (m[2] == "" || op.entries[m[1]][m[2]].Type != nil || op.entries[m[1]][m[2]].Format != "")
		if known {
			_, known = op.fields[m[1]]
		}
		if !known && f.Field != "total_cost" || f.Message == "" {
			t.Errorf("%s: the request has no field %q, or the message is empty: %s", a.What, f.Field, a.Body)
		}
		if a.Status != 422 && f.Message != e.Detail {
			t.Errorf("%s: the message is %q, want that of the detail: %s", a.What, f.Message, a.Body)
		}
	}
}

// TestFieldsOfErrors causes each error that the document describes for a PATCH or a DELETE. TestErrorsAreNotStored
// does this for POST.
func TestFieldsOfErrors(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	covered := map[string]bool{}
	c := w.api.Tenant(t).User(t, "admin")
	product, part := createProduct(t, c, 1), createProduct(t, c, 0)
	productMaterial := product + "/materials/" + c.Get(t, product).Want(200).Text("materials.0.id")
	c.Patch(t, part, testkit.JSON{"sku": "PART"}).Want(200)
	component := c.Post(t, product+"/components", testkit.JSON{"component_product_id": idOf(part)}).Want(201).
		Header.Get("Location")
	other := createProduct(t, c, 0)
	component2 := c.Post(t, product+"/components", testkit.JSON{"component_product_id": idOf(other)}).Want(201).
		Header.Get("Location")
	plated := c.Post(t, "/api/v1/products", testkit.JSON{"name": "On plates", "plates": []any{testkit.JSON{}}}).Want(201)
	plate := "/api/v1/products/" + plated.Text("plates.0.id")
	platePart := "/api/v1/products/" + plated.ID() + "/components/" + plated.Text("components.0.id")
	ofVariants := createProduct(t, c, 1)
	c.Post(t, ofVariants+"/components", testkit.JSON{"component_product_id": idOf(part)}).Want(201)
	variant := c.Post(t, "/api/v1/products", testkit.JSON{"variant_of": idOf(ofVariants),
		"variant_materials": []any{testkit.JSON{"color": "Blue"}}}).Want(201)
	others := []any{}
	for i := range 20 {
		others = append(others, testkit.JSON{"color": fmt.Sprint("Color ", i)})
	}
	c.Post(t, ofVariants+"/variants", testkit.JSON{"variants": others}).Want(201)
	variantMaterial := "/api/v1/products/" + variant.ID() + "/materials/" + variant.Text("materials.0.id")
	variantPart := "/api/v1/products/" + variant.ID() + "/components/" + variant.Text("components.0.id")
	spool := createSpool(t, c, nil)
	run, material := createRun(t, c, spool, 1)
	item := c.Post(t, run+"/items", testkit.JSON{"product_id": idOf(product)}).Want(201).Header.Get("Location")
	c.Post(t, run+"/complete", nil).Want(200)
	open, openMaterial := createRun(t, c, spool, 1)
	printing, printingMaterial := createRun(t, c, spool, 1)
	c.Patch(t, printing, testkit.JSON{"status": "in_progress"}).Want(200)
	check(t, w.api.DB.Write(db.As(t.Context(), c.Actor), db.SQL(
		`select report_printed(number, 1, null, null, null)::text from spools where id = $1`, idOf(spool))))
	order := ordersURL + "/" + c.Post(t, ordersURL, testkit.JSON{"reference": "1",
		"items": []any{testkit.JSON{"product_id": idOf(product)}}}).Want(201).ID()
	orderItem := c.Get(t, order).Want(200).Text("items.0.id")
	printed := testkit.JSON{"product_id": idOf(product), "order_item_id": orderItem}
	c.Post(t, open+"/items", printed).Want(201)
	other2 := ordersURL + "/" + c.Post(t, ordersURL, testkit.JSON{"reference": "2"}).Want(201).ID()
	levels := "/api/v1/stock-levels"
	c.Post(t, levels, testkit.JSON{"material_type": "PLA", "minimum_grams": 1}).Want(201)
	level := levels + "/" + c.Post(t, levels, testkit.JSON{"material_type": "ABS", "minimum_grams": 1}).Want(201).ID()
	c.Post(t, "/api/v1/vendors", testkit.JSON{"name": "Alpha"}).Want(201)
	filament := c.Post(t, "/api/v1/filaments", testkit.JSON{"material_type": "PLA", "color": "Black",
		"diameter_mm": 1.75, "net_weight_grams": 1}).Want(201).Header.Get("Location")
	follower := c.Post(t, spoolsURL, testkit.JSON{"filament_id": idOf(filament)}).Want(201).Header.Get("Location")
	c.Post(t, printersURL, testkit.JSON{"name": "Alpha"}).Want(201)
	c.Post(t, "/api/v1/shops", testkit.JSON{"kind": "generic", "name": "Alpha"}).Want(201)
	shop := "/api/v1/shops/" + c.Post(t, "/api/v1/shops", testkit.JSON{"kind": "generic", "name": "Beta"}).Want(201).ID()
	printer := printersURL + "/" + c.Post(t, printersURL, testkit.JSON{"name": "Beta", "slots": 2}).Want(201).ID()
	c.Do(t, "PUT", printer+"/slots/2", testkit.JSON{"spool_id": idOf(spool)}).Want(200)
	key := "/api/v1/api-keys/" + c.Post(t, "/api/v1/api-keys",
		testkit.JSON{"name": "P", "role": "printer"}).Want(201).ID()
	vendor := "/api/v1/vendors/" + c.Post(t, "/api/v1/vendors", testkit.JSON{"name": "Beta"}).Want(201).ID()
	for _, r := range []struct {
		route, path, code string
		status            int
		body              any
	}{
		{"PATCH /api/v1/spools", spoolsURL, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"ids": []any{value.NewID()}, "changes": testkit.JSON{"notes": "x"}}},
		{"PATCH /api/v1/spools", spoolsURL, "SPOOLS_CHANGED", 409, testkit.JSON{"ids": []any{idOf(spool)},
			"changes": testkit.JSON{"notes": "x"}, "unchanged_since": "2024-01-15T14:30:00Z"}},
		{"DELETE /api/v1/spools", spoolsURL, "UNKNOWN_REFERENCE", 400, testkit.JSON{"ids": []any{value.NewID()}}},
		{"PATCH /api/v1/products/{id}", product, "DUPLICATE_SKU", 409, testkit.JSON{"sku": "PART"}},
		{"PATCH /api/v1/products/{id}", product, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"plates": []any{testkit.JSON{"id": value.NewID()}}}},
		{"PATCH /api/v1/products/{id}", product, "FILAMENT_FIELD", 409, testkit.JSON{"plates": []any{testkit.JSON{
			"materials": []any{testkit.JSON{"filament_id": idOf(filament), "color": "Red", "weight_grams": 1}}}}}},
		{"PATCH /api/v1/products/{id}", plate, "PLATE_OF_PLATE", 409,
			testkit.JSON{"plates": []any{testkit.JSON{}}}},
		{"PATCH /api/v1/products/{id}/components/{component_id}", platePart, "COMPONENT_IS_PLATE", 409,
			testkit.JSON{"component_product_id": idOf(part)}},
		{"DELETE /api/v1/products/{id}", part, "PRODUCT_IN_USE", 400, nil},
		{"DELETE /api/v1/products/{id}", ofVariants, "PRODUCT_IN_USE", 409, nil},
		{"PATCH /api/v1/products/{id}", ofVariants, "VARIANT_LIMIT", 409, testkit.JSON{"plates": []any{testkit.JSON{
			"materials": slices.Repeat([]any{testkit.JSON{"material_type": "PLA", "color": "Black", "weight_grams": 1}}, 500)}}}},
		{"PATCH /api/v1/products/{id}", "/api/v1/products/" + variant.ID(), "VARIANT_FIELD", 409,
			testkit.JSON{"category": "x"}},
		{"PATCH /api/v1/products/{id}/materials/{material_id}", variantMaterial, "VARIANT_FIELD", 409,
			testkit.JSON{"weight_grams": 7}},
		{"DELETE /api/v1/products/{id}/materials/{material_id}", variantMaterial, "VARIANT_FIELD", 409, nil},
		{"PATCH /api/v1/products/{id}/components/{component_id}", variantPart, "VARIANT_FIELD", 409,
			testkit.JSON{"quantity": 7}},
		{"DELETE /api/v1/products/{id}/components/{component_id}", variantPart, "VARIANT_FIELD", 409, nil},
		{"PATCH /api/v1/products/{id}/components/{component_id}", component, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"component_product_id": value.NewID()}},
		{"PATCH /api/v1/products/{id}/components/{component_id}", component, "COMPONENT_CYCLE", 400,
			testkit.JSON{"component_product_id": idOf(product)}},
		{"PATCH /api/v1/products/{id}/components/{component_id}", component2, "DUPLICATE_COMPONENT", 409,
			testkit.JSON{"component_product_id": idOf(part)}},
		{"PATCH /api/v1/production-runs/{id}", run, "RUN_ALREADY_COMPLETED", 400, testkit.JSON{"status": "paused"}},
		{"PATCH /api/v1/production-runs/{id}", run, "UNKNOWN_REFERENCE", 400, testkit.JSON{"printer_id": value.NewID()}},
		{"PATCH /api/v1/production-runs/{id}/items/{item_id}", item, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"product_id": value.NewID()}},
		{"PATCH /api/v1/production-runs/{id}/items/{item_id}", item, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"order_item_id": value.NewID()}},
		{"PATCH /api/v1/production-runs/{id}/materials/{material_id}", openMaterial, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"spool_id": value.NewID()}},
		{"PATCH /api/v1/production-runs/{id}/materials/{material_id}", material, "RUN_ALREADY_COMPLETED", 400,
			testkit.JSON{"actual_purge_grams": 3}},
		{"DELETE /api/v1/production-runs/{id}/materials/{material_id}", material, "RUN_ALREADY_COMPLETED", 400, nil},
		{"PATCH /api/v1/production-runs/{id}/materials/{material_id}", printingMaterial, "MATERIAL_REPORTED", 409,
			testkit.JSON{"spool_id": idOf(follower)}},
		{"DELETE /api/v1/production-runs/{id}/materials/{material_id}", printingMaterial, "MATERIAL_REPORTED", 409, nil},
		{"PATCH /api/v1/orders/{id}", other2, "ORDER_CONFLICT", 409, testkit.JSON{"reference": "1"}},
		{"DELETE /api/v1/orders/{id}/items/{item_id}", order + "/items/" + orderItem, "ORDER_ITEM_IN_USE", 409, nil},
		{"PATCH /api/v1/users/{id}", "/api/v1/users/" + c.Actor.User, "LAST_ADMIN", 409,
			testkit.JSON{"role": "viewer"}},
		{"PATCH /api/v1/users/{id}", "/api/v1/users/" + c.Actor.User, "LAST_ADMIN", 409,
			testkit.JSON{"disabled": true}},
		{"DELETE /api/v1/users/{id}", "/api/v1/users/" + c.Actor.User, "LAST_ADMIN", 409, nil},
		{"DELETE /api/v1/users/{id}/otp", "/api/v1/users/" + c.Actor.User + "/otp", "OWN_OTP", 409, nil},
		{"PATCH /api/v1/settings", "/api/v1/settings", "OTP_NOT_ENABLED", 409, testkit.JSON{"second_factor": "all"}},
		{"PATCH /api/v1/products/{id}/materials/{material_id}", productMaterial, "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"filament_id": value.NewID()}},
		{"PATCH /api/v1/products/{id}/materials/{material_id}", productMaterial, "FILAMENT_FIELD", 409,
			testkit.JSON{"filament_id": idOf(filament), "color": "another"}},
		{"PATCH /api/v1/printers/{id}", printer, "DUPLICATE_PRINTER", 409, testkit.JSON{"name": "ALPHA"}},
		{"PATCH /api/v1/shops/{id}", shop, "DUPLICATE_SHOP", 409, testkit.JSON{"name": "ALPHA"}},
		{"PATCH /api/v1/printers/{id}", printer, "SLOT_IN_USE", 409, testkit.JSON{"slots": 1}},
		{"PUT /api/v1/printers/{id}/slots/{number}", printer + "/slots/1", "UNKNOWN_REFERENCE", 400,
			testkit.JSON{"spool_id": value.NewID()}},
		{"PATCH /api/v1/api-keys/{id}", key, "UNKNOWN_REFERENCE", 400, testkit.JSON{"printer_id": value.NewID()}},
		{"PATCH /api/v1/vendors/{id}", vendor, "DUPLICATE_VENDOR", 409, testkit.JSON{"name": "ALPHA"}},
		{"PATCH /api/v1/spools", spoolsURL, "FILAMENT_FIELD", 409,
			testkit.JSON{"ids": []any{idOf(follower)}, "changes": testkit.JSON{"color": "x"}}},
		{"PATCH /api/v1/spools/{id}", follower, "FILAMENT_FIELD", 409, testkit.JSON{"color": "x", "brand": "y"}},
		{"PATCH /api/v1/spools/{id}", spool, "UNKNOWN_REFERENCE", 400, testkit.JSON{"filament_id": value.NewID()}},
		{"PATCH /api/v1/filaments/{id}", filament, "UNKNOWN_REFERENCE", 400, testkit.JSON{"vendor_id": value.NewID()}},
		{"PATCH /api/v1/orders", ordersURL, "UNKNOWN_REFERENCE", 400, testkit.JSON{"items": []any{
			testkit.JSON{"id": value.NewID(), "changes": testkit.JSON{}}}}},
		{"PATCH /api/v1/stock-levels/{id}", level, "STOCK_LEVEL_EXISTS", 409, testkit.JSON{"material_type": "PLA"}},
		{"GET /api/v1/sign-on", "/api/v1/sign-on", "NOT_FOUND", 404, nil},
		{"DELETE /api/v1/sign-on", "/api/v1/sign-on", "NOT_FOUND", 404, nil},
		{"PUT /api/v1/sign-on", "/api/v1/sign-on", "SIGN_ON_NOT_TRIED", 409,
			testkit.JSON{"issuer": "https://login.farm.example", "client_id": "x", "required": true}},
	} {
		covered[r.route+" "+r.code] = true
		method, _, _ := strings.Cut(r.route, " ")
		w.wantFields(t, r.route, c.Do(t, method, r.path, r.body).WantError(r.status, r.code))
		// The same errors of several resources at once.
		route, one := strings.CutSuffix(r.route, "/{id}")
		if one && slices.Contains(strings.Fields("filaments products orders"), strings.TrimPrefix(route, "PATCH /api/v1/")) {
			covered[route+" "+r.code] = true
			w.wantFields(t, route, c.Patch(t, strings.TrimPrefix(route, "PATCH "), testkit.JSON{"items": []any{
				testkit.JSON{"id": idOf(r.path), "changes": r.body}}}).WantError(r.status, r.code))
		}
	}
	alone := w.api.Tenant(t).User(t, "admin") // who can only sign on
	const issuer = "https://login.farm.example"
	check(t, w.api.DB.Write(db.As(t.Context(), alone.Actor),
		db.SQL(`insert into sign_on_providers (id, issuer, client_id) values ($1, $2, 'x')`, value.NewID(), issuer),
		db.SQL(`update users set password_hash = '', sign_on_issuer = $2, sign_on_subject = 'x' where id = $1`,
			alone.Actor.User, issuer)))
	for route, r := range map[string]*testkit.Response{
		"PUT /api/v1/sign-on": alone.Do(t, "PUT", "/api/v1/sign-on",
			testkit.JSON{"issuer": issuer + "/new", "client_id": "x"}),
		"DELETE /api/v1/sign-on":            alone.Delete(t, "/api/v1/sign-on"),
		"DELETE /api/v1/users/{id}/sign-on": alone.Delete(t, "/api/v1/users/"+alone.Actor.User+"/sign-on"),
	} {
		covered[route+" LAST_ADMIN"] = true
		w.wantFields(t, route, r.WantError(409, "LAST_ADMIN"))
	}
	body := testkit.JSON{"current_password": "wrong", "new_password": testkit.Password}
	w.wantFields(t, "POST /api/v1/auth/password", c.Post(t, "/api/v1/auth/password", body).
		WantError(400, "INVALID_CREDENTIALS"))
	for _, op := range w.operations {
		for _, e := range op.Doc.Errors {
			if op.Method() != "POST" && !covered[op.Pattern+" "+e.Code] {
				t.Errorf("%s: the test lacks %s", op.Pattern, e.Code)
			}
		}
	}
}

// The error for a SKU that no product has names the SKU: an order of 40 lines has one wrong one.
func TestUnknownSKUIsNamed(t *testing.T) {
	t.Parallel()
	u := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t).User(t, "operator")
	product := u.Post(t, "/api/v1/products", testkit.JSON{"name": "Dragon", "sku": "DRG-1"}).Want(201).ID()
	order := u.Post(t, "/api/v1/orders", testkit.JSON{"unassigned_lines": []testkit.JSON{{"title": "Dragoon", "quantity": 1}}}).Want(201)
	run := u.Post(t, "/api/v1/production-runs", testkit.JSON{}).Want(201).ID()
	for path, body := range map[string]testkit.JSON{
		"orders":                          {"items": []testkit.JSON{{"sku": "DRG-1"}, {"sku": "DRG-2"}}},
		"orders/" + order.ID() + "/items": {"sku": "DRG-2"},
		"orders/" + order.ID() + "/lines/" + order.Text("unassigned_lines.0.id") + "/assign": {"sku": "DRG-2"},
		"products":                            {"name": "Set", "components": []testkit.JSON{{"sku": "DRG-2"}}},
		"products/" + product + "/components": {"sku": "DRG-2"},
		"production-runs":                     {"items": []testkit.JSON{{"sku": "DRG-2"}}},
		"production-runs/" + run + "/items":   {"sku": "DRG-2"},
		"plan":                                {"items": []testkit.JSON{{"sku": "DRG-2", "quantity": 1}}},
	} {
		a := u.Post(t, "/api/v1/"+path, body).WantError(400, "UNKNOWN_REFERENCE")
		if detail := a.Text("detail"); !strings.Contains(detail, `sku "DRG-2"`) || strings.Contains(detail, "DRG-1") {
			t.Errorf("%s: %s", path, detail)
		}
	}
}
