package web

import "time"

// connectedShop is a connection to a shop, as the API returns it.
type connectedShop struct {
	ID, Kind, Name, Address, Secret string
	ReceivedAt                      *time.Time `json:"received_at"`
	RefusedAt                       *time.Time `json:"refused_at"`
}

// shopKinds returns the kinds of shops, with their names for people.
func (v *visit) shopKinds() []option {
	return []option{{"shopify", "Shopify"}, {"woocommerce", "WooCommerce"}, {"generic", v.t("Another shop")}}
}

// Program returns the name of the kind of the shop.
func (s connectedShop) Program(v view) string { return nameOf(v.shopKinds(), s.Kind) }

// IsRefused reports whether the last message had a wrong signature.
func (s connectedShop) IsRefused() bool {
	return s.RefusedAt != nil && (s.ReceivedAt == nil || s.RefusedAt.After(*s.ReceivedAt))
}

// lineName is a name that shops have for a product, as the API returns it.
type lineName struct {
	ID, Title, SKU string
	Product        string `json:"product_name"`
	Pieces         int
}

// shopList is the page of the connections to shops.
type shopList struct {
	Items []connectedShop
	New   connectedShop // the connection that was just created or got another secret, or empty
	Form  *form
	Names struct{ Items []lineName }
	Other *form // the refused form of another secret, or nil
	other string
}

// Kinds returns the kinds of shops, to choose from.
func (l *shopList) Kinds(v view) []option { return v.shopKinds() }

// Secret returns the form that enters another secret of the connection.
func (l *shopList) Secret(id string) *form {
	if l.Other != nil && l.other == id {
		return l.Other
	}
	return newForm(l.Form.read)
}

func listShops(v *visit) error { return v.shopList(200, &shopList{Form: v.newForm()}) }

func (v *visit) shopList(status int, l *shopList) error {
	if err := v.fetch(get("/api/v1/shops?limit=100&sort_by=name&sort_order=asc", l),
		get("/api/v1/order-assignments?limit=100", &l.Names)); err != nil {
		return err
	}
	return v.show(status, "shops", v.t("Shops"), l)
}

// createShop connects a shop, and shows the address and the secret once.
func createShop(v *visit) error {
	l := &shopList{Form: v.sent()}
	ok, err := v.send(l.Form, "POST", "/api/v1/shops", l.Form.body(field{"name", text}, field{"kind", text}), &l.New)
	switch {
	case err != nil:
		return err
	case !ok:
		return v.shopList(422, l)
	case l.New.Secret == "": // the form was sent twice, and the response is not stored
		return v.redirect("/settings/shops")
	}
	l.Form = v.newForm()
	return v.shopList(200, l)
}

// changeShopSecret saves the secret that the shop has made, or shows a new secret once.
func changeShopSecret(v *visit) error {
	f := v.sent()
	l := &shopList{Form: v.newForm(), other: v.r.PathValue("id")}
	ok, err := v.send(f, "POST", "/api/v1/shops/{id}/rotate", f.body(field{"signing_secret", text}), &l.New)
	switch {
	case err != nil:
		return err
	case !ok:
		l.Other = f
		return v.shopList(422, l)
	case f.Values.Get("signing_secret") != "" || l.New.Secret == "":
		v.tell(&notice{Text: v.t("The secret is saved.")})
		return v.redirect("/settings/shops")
	}
	return v.shopList(200, l)
}

func (v *visit) shopRefused(f *form) error { return v.shopList(422, &shopList{Form: f}) }
