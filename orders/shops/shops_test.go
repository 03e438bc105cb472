package shops_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
	"spoolwright/value"
	"spoolwright/webhooks"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	path   = "/api/v1/shops"
	orders = "/api/v1/orders"
)

// shop is a connection, and signs messages as the shop does.
type shop struct {
	api          *testkit.API
	kind, secret string
	address      string
	c            *testkit.Client // an admin of the farm
}

func connect(t testing.TB, c *testkit.Client, kind string) *shop {
	t.Helper()
	return connectAs(t, c, kind, kind+".example")
}

// connectAs returns a connection with a name.
func connectAs(t testing.TB, c *testkit.Client, kind, name string) *shop {
	t.Helper()
	a := c.Post(t, path, j{"kind": kind, "name": name}).Want(201)
	return &shop{c.API, kind, a.Text("secret"), a.Text("address"), c}
}

// newShop returns a connection of a new farm.
func newShop(t testing.TB, kind string) *shop {
	t.Helper()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	return connect(t, api.Tenant(t).User(t, "admin"), kind)
}

func mac(secret string, body []byte) string {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write(body)
	return base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// sign returns the headers of a message.
func (s *shop) sign(body []byte) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	switch s.kind {
	case "shopify":
		h.Set("X-Shopify-Hmac-Sha256", mac(s.secret, body))
	case "woocommerce":
		h.Set("X-WC-Webhook-Signature", mac(s.secret, body))
	default:
		id, at := "msg_"+value.NewID(), time.Now().Unix()
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.secret, "whsec_"))
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", strconv.FormatInt(at, 10))
		h.Set("webhook-signature", webhooks.Signature(key, id, at, body))
	}
	return h
}

// post sends a message with the headers and returns the status and the body of the answer.
func (s *shop) post(t testing.TB, body []byte, h http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequest("POST", s.api.URL+s.address, bytes.NewReader(body))
	testkit.Check(t, err)
	for name, values := range h {
		r.Header[name] = values
	}
	a, err := http.DefaultClient.Do(r)
	testkit.Check(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	testkit.Check(t, err)
	return a.StatusCode, string(text)
}

// send sends a signed message.
func (s *shop) send(t testing.TB, body any) {
	t.Helper()
	text := encode(t, body)
	if status, answer := s.post(t, text, s.sign(text)); status != 200 {
		t.Errorf("the message got %d %s: %s", status, answer, text)
	}
}

func encode(t testing.TB, body any) []byte {
	t.Helper()
	if text, ok := body.(string); ok {
		return []byte(text)
	}
	text, err := json.Marshal(body)
	testkit.Check(t, err)
	return text
}

func TestConnections(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "admin"), api.Tenant(t).User(t, "admin")
	created := c.Post(t, path, j{"kind": "shopify", "name": "Dragons"}).Want(201)
	one := path + "/" + created.ID()
	secret := created.Text("secret")
	if !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %s", secret)
	}
	testkit.Equal(t, created.Text("address"), "/shops/"+created.ID()+"/events", "the address")
	got := c.Get(t, one).Want(200)
	testkit.Lacks(t, string(got.Body)+string(c.Get(t, path).Want(200).Body), secret[10:],
		"the secret is shown again")
	c.Patch(t, one, j{"name": "Dragons 2"}).Want(200).Shows(map[string]string{"name": "Dragons 2", "kind": "shopify"})
	c.Patch(t, one, j{"name": nil}).Fields("name")
	if again := c.Post(t, one+"/rotate", nil).Want(200).Text("secret"); again == secret {
		t.Error("the secret is the same after a rotation")
	}
	c.Post(t, one+"/rotate", j{"signing_secret": "0123456789abcdef0123"}).Want(200).
		Shows(map[string]string{"secret": "0123456789abcdef0123"})
	for _, wrong := range []string{"short", strings.Repeat("x", 201), "with a blank in the middle",
		`with"quote0123456789`, "späte0123456789012345"} {
		c.Post(t, one+"/rotate", j{"signing_secret": wrong}).Fields("signing_secret")
	}
	c.Post(t, path, j{"kind": "generic", "name": "x", "signing_secret": "0123456789abcdef0123"}).Fields("signing_secret")
	c.Post(t, path, j{"kind": "generic", "name": "x", "signing_secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="}).Want(201)
	c.Post(t, path, j{"kind": "magento", "name": ""}).Fields("kind", "name")
	c.Post(t, path, j{}).Fields("kind", "name")
	other.Get(t, one).WantError(404, "NOT_FOUND")
	other.Patch(t, one, j{"name": "x"}).WantError(404, "NOT_FOUND")
	other.Post(t, one+"/rotate", nil).WantError(404, "NOT_FOUND")
	other.Delete(t, one).WantError(404, "NOT_FOUND")
	for _, role := range []string{"viewer", "operator"} {
		u := tenant.User(t, role)
		u.Get(t, path).WantError(403, "FORBIDDEN")
		u.Post(t, path, j{"kind": "generic", "name": "x"}).WantError(403, "FORBIDDEN")
		u.Delete(t, one).WantError(403, "FORBIDDEN")
	}
	c.Post(t, path, j{"kind": "generic", "name": "dragons 2"}).WantError(409, "DUPLICATE_SHOP")
	third := path + "/" + c.Post(t, path, j{"kind": "generic", "name": "Ä"}).Want(201).ID()
	c.Patch(t, third, j{"name": "X"}).WantError(409, "DUPLICATE_SHOP")
	c.Patch(t, third, j{"name": "ä"}).Want(200).Shows(map[string]string{"name": "ä"})
	c.Patch(t, third, j{}).Want(200).Shows(map[string]string{"name": "ä"})
	for n := range 17 {
		c.Post(t, path, j{"kind": "generic", "name": fmt.Sprint("x", n)}).Want(201)
	}
	c.Post(t, path, j{"kind": "generic", "name": "x"}).WantError(409, "SHOP_LIMIT")
	c.Get(t, path+"?kind=shopify").Want(200).Shows(map[string]string{"total": "1"})

	s := &shop{api, "shopify", "0123456789abcdef0123", created.Text("address"), c}
	s.send(t, shopifyOrder(1, 1, 0))
	c.Delete(t, one).Want(204)
	body := encode(t, shopifyOrder(1, 2, 0))
	if status, answer := s.post(t, body, s.sign(body)); status != 401 {
		t.Errorf("a message to a deleted connection got %d %s", status, answer)
	}
	c.Get(t, orders).Want(200).Shows(map[string]string{"total": "1"})
}

// shopifyOrder returns an order with the id, changed at a second of a day, of a line with a quantity.
func shopifyOrder(id, second, quantity int) j {
	return j{"id": 820982911946154000 + int64(id), "name": fmt.Sprintf("#%d", 1000+id),
		"updated_at": time.Date(2026, 1, 5, 1, 0, second, 0, time.FixedZone("", -5*3600)).Format(time.RFC3339),
		"line_items": []j{{"id": int64(866550311766439020), "name": "Dragon - Red", "sku": "DRG", "quantity": quantity,
			"price": "12.50"}}}
}

// A message is taken only if it is signed with the secret of the connection, whatever is wrong with it otherwise.
func TestSignatures(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"shopify", "woocommerce", "generic"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, kind)
			theirs := connectAs(t, s.c, kind, "theirs.example")
			body := []byte(`{"id": 1, "number": "1", "name": "1", "reference": "1", "status": "processing",
				"updated_at": "2026-01-05T10:00:00Z", "date_modified_gmt": "2026-01-05T10:00:00",
				"lines": [{"title": "x"}], "line_items": [{"id": 1, "name": "x", "quantity": 1, "price": 1}]}`)
			right := s.sign(body)
			header := map[string]string{"shopify": "X-Shopify-Hmac-Sha256", "woocommerce": "X-WC-Webhook-Signature",
				"generic": "webhook-signature"}[kind]
			with := func(name, value string) http.Header {
				h := right.Clone()
				h.Set(name, value)
				return h
			}
			signature := right.Get(header)
			wrong := map[string]http.Header{"none": {}, "of another connection": theirs.sign(body),
				"empty": with(header, ""), "not Base64": with(header, "!"), "cut": with(header, signature[:20]),
				"of another body": s.sign([]byte("{}")), "of the text of the secret": with(header, s.secret),
				"of another kind": {"X-Shopify-Hmac-Sha256": {mac("x", body)}, "X-Wc-Webhook-Signature": {mac("x", body)}}}
			if kind == "generic" {
				wrong["late"], wrong["of another id"] = with("webhook-timestamp", "1700000000"), with("webhook-id", "msg_2")
				wrong["without a version"] = with(header, strings.TrimPrefix(signature, "v1,"))
				key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.secret, "whsec_"))
				for name, difference := range map[string]int64{"an hour old": -3600, "of the next hour": 3600} {
					at := time.Now().Unix() + difference
					h := with("webhook-timestamp", fmt.Sprint(at))
					h.Set(header, webhooks.Signature(key, h.Get("webhook-id"), at, body))
					wrong[name] = h
				}
			}
			for name, h := range wrong {
				if status, answer := s.post(t, body, h); status != 401 || !strings.Contains(answer, "INVALID_SIGNATURE") {
					t.Errorf("a signature, %s, got %d %s", name, status, answer)
				}
			}
			for _, address := range []string{"/shops/" + value.NewID() + "/events", "/shops/x/events"} {
				other := *s
				other.address = address
				if status, answer := other.post(t, body, right); status != 401 {
					t.Errorf("%s: %d %s", address, status, answer)
				}
			}
			if status, _ := s.post(t, append(body, ' '), right); status != 401 {
				t.Errorf("a changed body got %d", status)
			}
			s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "0"})
			one := strings.Replace(strings.TrimSuffix(s.address, "/events"), "/shops", path, 1)
			if a := s.c.Get(t, one).Want(200); a.Text("refused_at") == "null" || a.Text("received_at") != "null" {
				t.Errorf("the connection is %s", a.Body)
			}
			if status, answer := s.post(t, body, right); status != 200 {
				t.Errorf("the right signature got %d %s", status, answer)
			}
			s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "1", "items.0.source": kind + ".example"})
			if a := s.c.Get(t, one).Want(200); a.Text("received_at") == "null" {
				t.Errorf("the connection is %s", a.Body)
			}

			// A signed message that is no order is refused without harm.
			for _, text := range []string{"", "{", "[]", `"x"`, `{"id": {}}`, `{"id": 1, "line_items": 3, "lines": 3}`,
				`{"id": 1, "line_items": [{"quantity": -1}], "lines": [{"quantity": -1}]}`} {
				if status, _ := s.post(t, []byte(text), s.sign([]byte(text))); status != 422 && status != 200 {
					t.Errorf("the body %s got %d", text, status)
				}
			}
			large := bytes.Repeat([]byte(" "), 1<<20+1)
			if status, _ := s.post(t, large, s.sign(large)); status != 413 {
				t.Errorf("a body of more than 1 MiB got %d", status)
			}
			// The previous secret is accepted for a day.
			rotated := s.c.Post(t, one+"/rotate", nil).Want(200).Text("secret")
			if status, _ := s.post(t, body, s.sign(body)); status != 200 {
				t.Errorf("the previous secret got %d", status)
			}
			s.secret = rotated
			if status, _ := s.post(t, body, s.sign(body)); status != 200 {
				t.Errorf("the new secret got %d", status)
			}
		})
	}
}

// Wrong signatures count for the address of the client. Then its messages are rejected, and right ones are free
// before.
func TestWrongSignaturesAreLimited(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{PerMinute: 10, PerHour: 1000}, testkit.Features...)
	s := connect(t, api.Tenant(t).User(t, "admin"), "woocommerce")
	body := []byte(`{"id": 1, "number": "1", "status": "processing", "date_modified_gmt": "2026-01-05T10:00:00",
		"line_items": [{"id": 1, "name": "x", "quantity": 1}]}`)
	for range 20 {
		if status, answer := s.post(t, body, s.sign(body)); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	for i := range 12 {
		want := 401
		if i >= 10 {
			want = 429
		}
		if status, _ := s.post(t, body, nil); status != want {
			t.Errorf("wrong signature %d: %d, want %d", i+1, status, want)
		}
	}
	if status, _ := s.post(t, body, s.sign(body)); status != 429 {
		t.Errorf("a right signature from a limited address: %d", status)
	}
}

// WooCommerce tries an address without a signature before it enables a webhook. That changes nothing.
func TestPing(t *testing.T) {
	t.Parallel()
	woo := newShop(t, "woocommerce")
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if status, answer := woo.post(t, []byte("webhook_id=12"), h); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	for _, body := range []string{"webhook_id=12&x=1", "webhook_id=", `{"id":1}`, "webhook_id=x"} {
		if status, _ := woo.post(t, []byte(body), h); status != 401 {
			t.Errorf("%s: %d", body, status)
		}
	}
	if status, _ := connect(t, woo.c, "shopify").post(t, []byte("webhook_id=12"), h); status != 401 {
		t.Errorf("of Shopify: %d", status)
	}
	woo.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "0"})
}

// A message that is not about an order of the shop changes nothing: one of another topic, or of Shopify's test button.
func TestMessagesOfNoOrder(t *testing.T) {
	t.Parallel()
	line := j{"id": 1, "name": "Dragon", "quantity": 1, "total": "5"}
	for _, test := range []struct {
		kind, header, value string
		body                j
	}{
		{"shopify", "X-Shopify-Test", "true", shopifyOrder(1, 1, 1)},
		{"shopify", "X-Shopify-Topic", "products/update", shopifyOrder(1, 1, 1)},
		{"woocommerce", "X-WC-Webhook-Topic", "product.updated", wooOrder(1, 1, "processing", line)},
	} {
		s := newShop(t, test.kind)
		text := encode(t, test.body)
		h := s.sign(text)
		h.Set(test.header, test.value)
		if status, answer := s.post(t, text, h); status != 200 {
			t.Errorf("%s %s: %d %s", test.header, test.value, status, answer)
		}
		s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "0"})
		s.send(t, test.body)
		s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "1"})
	}
}
