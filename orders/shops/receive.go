package shops

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/orders"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// Receiver takes the messages of shops.
func (s *Service) Receiver() server.Receiver {
	return server.Receiver{Pattern: "POST /shops/{id}/events", Serve: s.receive}
}

// ping is the unsigned message that WooCommerce sends to test an address before it enables a webhook.
var ping = regexp.MustCompile(`^webhook_id=[0-9]{1,20}$`)

func (s *Service) receive(ctx context.Context, m server.Message) error {
	tenant, found, err := s.db.FindShop(ctx, m.ID)
	if err != nil {
		return err
	}
	if !found {
		return server.ErrSignature
	}
	ctx = db.As(ctx, db.Actor{Tenant: tenant})
	var kind, name string
	var secret, previous []byte
	shop := db.SQL(`select kind, name, secret, case when previous_until > now() then previous_secret end from shops
		where id = $1`, m.ID).Into(&kind, &name, &secret, &previous)
	if err := s.db.Read(ctx, shop); err != nil {
		return err
	}
	if shop.Rows() == 0 {
		return server.ErrSignature
	}
	if kind == "woocommerce" && m.Header.Get("X-WC-Webhook-Signature") == "" && ping.Match(m.Body) {
		return m.Count(false)
	}
	signed := false
	for i, sealed := range [][]byte{secret, previous} {
		if sealed == nil {
			continue
		}
		text, old, err := s.vault.Open(tenant, m.ID, sealed)
		if err != nil {
			if i == 0 && previous == nil {
				return err
			}
			continue
		}
		if signed = isSigned(kind, string(text), m, s.now()); !signed {
			continue
		}
		if old && i == 0 {
			if err := s.db.Write(ctx, db.SQL(`update shops set secret = $2 where id = $1 and secret = $3`, m.ID,
				s.vault.Seal(tenant, m.ID, text), sealed)); err != nil {
				return err
			}
		}
		break
	}
	if signed {
		if err := m.Count(true); err != nil {
			return err
		}
	}
	// A message changes the row at most once a minute, so that messages do not wait for each other.
	column := map[bool]string{true: "received_at", false: "refused_at"}[signed]
	seen := db.SQL(`update shops set `+column+` = now() where id = $1 and `+column+` is distinct from
		greatest(`+column+`, now() - interval '1 minute')`, m.ID)
	if !signed {
		if err := s.db.Write(ctx, seen); err != nil {
			return err
		}
		return server.ErrSignature
	}
	if !isAboutOrder(kind, m.Header) {
		return s.db.Write(ctx, seen)
	}
	parsed, err := server.DecodesBody(ctx, m.Body, func() (*message, error) {
		return parse(kind, m.Body, m.Header.Get("X-WC-Webhook-Delivery-ID"), s.now())
	})
	if err != nil {
		return err
	}
	if err := s.db.Write(ctx, seen); err != nil || parsed == nil {
		return err
	}
	return s.apply(ctx, m.ID, name, parsed)
}

// isAboutOrder reports whether a message is about an order, according to its headers. The signature does not cover
// them, so they only decide what to ignore. Shopify's test button sends an order that does not exist.
func isAboutOrder(kind string, h http.Header) bool {
	switch kind {
	case "shopify":
		topic := h.Get("X-Shopify-Topic")
		return h.Get("X-Shopify-Test") != "true" &&
			(topic == "" || strings.HasPrefix(topic, "orders/") || strings.HasPrefix(topic, "refunds/"))
	case "woocommerce":
		topic := h.Get("X-WC-Webhook-Topic")
		return topic == "" || strings.HasPrefix(topic, "order.")
	}
	return true
}

// maxAge is the maximum difference between the time of a message of a generic shop and that of the service.
const maxAge = 5 * time.Minute

// isSigned reports whether the shop has signed the message with the secret.
func isSigned(kind, secret string, m server.Message, now time.Time) bool {
	key := signingKey(kind, secret)
	if key == nil {
		return false
	}
	switch kind {
	case "shopify":
		return isHMAC(key, m.Body, m.Header.Get("X-Shopify-Hmac-Sha256"))
	case "woocommerce":
		return isHMAC(key, m.Body, m.Header.Get("X-WC-Webhook-Signature"))
	}
	return isStandard(key, m.Header, m.Body, now)
}

// isHMAC reports whether the text is the HMAC-SHA256 of the body in Base64. It compares in constant time.
func isHMAC(key, body []byte, text string) bool {
	sent, err := base64.StdEncoding.DecodeString(text)
	sum := hmac.New(sha256.New, key)
	sum.Write(body)
	return err == nil && hmac.Equal(sent, sum.Sum(nil))
}

// isStandard reports whether a message is signed as specified by Standard Webhooks, and its time is near now.
func isStandard(key []byte, h http.Header, body []byte, now time.Time) bool {
	at, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)).Abs() > maxAge {
		return false
	}
	want := []byte(webhooks.Signature(key, h.Get("webhook-id"), at, body))
	signed := false
	for i, text := range strings.Fields(h.Get("webhook-signature")) {
		if i < 10 && hmac.Equal([]byte(text), want) {
			signed = true
		}
	}
	return signed
}

// apply merges a message with the earlier messages about the order, and updates the farm's order. A lock on the row of
// the order makes concurrent messages about it wait.
func (s *Service) apply(ctx context.Context, shop, source string, m *message) error {
	return s.db.TxRepeatable(ctx, func(ctx context.Context) error {
		var id *string
		var text, applied []byte
		row := db.SQL(`select order_id::text, merged, applied from shop_orders
			where shop_id = $1 and number = $2 for update`, shop, m.order).Into(&id, &text, &applied)
		if err := s.db.Write(ctx,
			db.SQL(`insert into shop_orders (shop_id, number) select id, $2 from shops where id = $1 for key share
				on conflict do nothing`, shop, m.order), row); err != nil {
			return err
		}
		if row.Rows() == 0 { // the connection was deleted in the meantime
			return server.ErrSignature
		}
		var all merged
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
		all.merge(m.merged)
		var before *orders.Incoming
		if applied != nil {
			if err := json.Unmarshal(applied, &before); err != nil {
				return err
			}
			source = before.Source
		}
		if id == nil && all.Order != nil && !all.Order.Waiting && (!all.Wanted || all.Order.isShipped()) {
			same, follows, err := s.same(ctx, source, all.Order.Reference)
			if err != nil {
				return err
			}
			if same != "" && !follows {
				all.takeOver()
			}
		}
		now := all.incoming(source)
		if now != nil {
			if bundles := all.Order.bundles(now); bundles != nil {
				products, err := orders.WithProduct(ctx, s.db, bundles)
				if err != nil {
					return err
				}
				all.Order.joinParts(now, products)
			}
		}
		orderID := ""
		if id != nil {
			orderID = *id
		}
		var next []byte
		var err error
		if now != nil {
			if next, err = json.Marshal(now); err != nil {
				return err
			}
			if !bytes.Equal(next, applied) {
				if orderID == "" {
					orderID, err = s.add(ctx, m.order, *now)
				} else {
					err = orders.Sync(ctx, s.db, orderID, before, *now)
				}
				if err != nil {
					return err
				}
			}
		}
		text, err = json.Marshal(all)
		if err != nil {
			return err
		}
		return s.db.Write(ctx, db.SQL(`update shop_orders set order_id = $3, merged = $4, applied = $5,
				shop_updated_at = $6
			where shop_id = $1 and number = $2`, shop, m.order, value.OrNil(orderID), text, next,
			value.OrNil(all.Updated)))
	})
}

// add creates the order of a message, or takes over the existing order with its source and reference, and returns its
// id. If the existing order follows another order of a shop, the new order gets the id of the order in the shop as
// part of its reference.
func (s *Service) add(ctx context.Context, number string, in orders.Incoming) (string, error) {
	shown := in.Reference
	for taken := 0; ; { // the number of references that other orders already have
		t := &orders.ShopOrder{Now: in, CreateOnly: true}
		created, err := orders.SyncAll(ctx, s.db, []*orders.ShopOrder{t})
		if err == nil && created > 0 {
			err = s.db.Write(ctx, orders.Count(created))
		}
		if err != nil || t.ID != "" {
			return t.ID, err
		}
		id, follows, err := s.same(ctx, in.Source, in.Reference)
		if err != nil {
			return "", err
		}
		switch {
		case id == "":
			continue // it was removed in the meantime
		case !follows:
			return id, orders.Sync(ctx, s.db, id, nil, in)
		}
		suffix := " (" + number + ")"
		if taken++; taken > 1 {
			suffix = fmt.Sprintf(" (%s, %d)", number, taken)
		}
		in.Reference = clean(shown, 200-utf8.RuneCountInString(suffix), false) + suffix
	}
}

// same locks the farm's order with a source and a reference. It returns its id, or "", and whether it follows
// messages.
func (s *Service) same(ctx context.Context, source, reference string) (id string, follows bool, err error) {
	same := `from orders o where coalesce(o.source, '') = $1 and o.reference = $2 and o.hidden_at is null`
	// A concurrent message that takes the order over has locked it, and is committed when the second statement runs.
	err = s.db.Write(ctx, db.SQL(`select o.id `+same+` for no key update`, source, reference),
		db.SQL(`select o.id::text, exists (select from shop_orders s where s.order_id = o.id) `+same, source,
			reference).Into(&id, &follows))
	return id, follows, err
}
