package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"rsc.io/qr"

	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/web"
)

// drawn reports whether the page has a path with all runs of modules of the text's QR code.
func (p *page) drawn(t *testing.T, text string) bool {
	t.Helper()
	code, err := qr.Encode(text, qr.M)
	testkit.Check(t, err)
	var path strings.Builder
	for y := range code.Size {
		fmt.Fprintf(&path, "M4 %d.5", y+4)
		for x := 0; x < code.Size; {
			end := x
			for end < code.Size && code.Black(end, y) == code.Black(x, y) {
				end++
			}
			if code.Black(x, y) {
				fmt.Fprintf(&path, "h%d", end-x)
			} else if end < code.Size {
				fmt.Fprintf(&path, "m%d 0", end-x)
			}
			x = end
		}
	}
	return strings.Contains(p.text, `d="`+path.String()+`"`)
}

// Labels, password links and lines to copy of a farm without an address begin with PUBLIC_URL.
func TestAddressOfTheService(t *testing.T) {
	t.Parallel()
	const farm = "https://farm.example:8443"
	api := newAPI(t, testkit.Options{Pages: func(c *web.Config) { c.PublicURL = farm }})
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	id := c.NewSpool(t, 500, nil)
	labels := b.get(t, "/labels?id="+id).want(t, 200).hides(t, "works only on the machine")
	if !labels.drawn(t, farm+"/s/1") {
		t.Errorf("the label has another address: %s", labels.text)
	}
	b.get(t, "/settings").shows(t, "must open "+farm+".", "Empty: "+farm+", the address of the service.")
	link := b.get(t, "/settings/users").submit(t, "/settings/users/"+c.Actor.User+"/password-link").want(t, 200).
		hides(t, "works only on the machine")
	testkit.Contains(t, link.text, `value="`+farm+"/password-link/", "the password link has another address")
	b.get(t, "/settings/keys").submit(t, "/settings/keys", "name", "MK4", "role", "printer").want(t, 200).
		shows(t, "server: https://x:swk_", "@farm.example:8443/spoolman")
}

// Labels, links and lines to copy begin with the address that an admin has set, whatever PUBLIC_URL and the address of
// the browser are. E-mails begin with PUBLIC_URL.
func TestAddressOfTheFarm(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"", "https://service.example"} {
		api := newAPI(t, testkit.Options{Pages: func(c *web.Config) { c.PublicURL = public }})
		tenant := api.Tenant(t)
		c := tenant.User(t, "admin")
		b := signIn(t, c)
		id := c.NewSpool(t, 500, nil)
		page := b.get(t, "/settings").want(t, 200)
		for _, wrong := range []string{"farm.example", "ftp://farm.example", "https://farm.example/pages", "https://",
			"https://a@farm.example", "https://farm.example:99999", "javascript:alert(1)"} {
			page.submit(t, "/settings/address", "farm_url", wrong).want(t, 422).
				shows(t, "Must be an address such as https://farm.example")
		}
		p := page.submit(t, "/settings/address", "farm_url", "http://192.168.1.30:8000/").to(t, "/settings").
			shows(t, "The address of the farm is saved", "must open http://192.168.1.30:8000.")
		if !p.drawn(t, "http://192.168.1.30:8000/") {
			t.Errorf("no code of the address: %s", p.text)
		}
		c.Get(t, "/api/v1/settings").Shows(map[string]string{"farm_url": "http://192.168.1.30:8000"})
		labels := b.get(t, "/labels?id="+id).want(t, 200).hides(t, "your browser uses", "works only on")
		if !labels.drawn(t, "http://192.168.1.30:8000/s/1") {
			t.Errorf("the label has another address: %s", labels.text)
		}
		link := b.get(t, "/settings/users").submit(t, "/settings/users/"+c.Actor.User+"/password-link").want(t, 200)
		testkit.Contains(t, link.text, `value="http://192.168.1.30:8000/password-link/`,
			"the password link has another address")
		b.get(t, "/settings/keys").submit(t, "/settings/keys", "name", "MK4", "role", "printer").want(t, 200).
			shows(t, "@192.168.1.30:8000/spoolman")
		b.get(t, "/settings/shops").submit(t, "/settings/shops", "name", "Shop", "kind", "shopify").want(t, 200).
			shows(t, "http://192.168.1.30:8000/shops/")
		audit := c.Get(t, "/api/v1/audit-log?action=settings.changed").Want(200)
		audit.Shows(map[string]string{"total": "1", "items.0.fields": "[farm_url]"})

		operator := tenant.User(t, "operator")
		operator.Patch(t, "/api/v1/settings", map[string]any{"farm_url": "https://evil.example"}).
			WantError(403, "FORBIDDEN")
		signIn(t, operator).do(t, "POST", "/settings/address", url.Values{"farm_url": {"https://evil.example"}}).want(t, 403)
		other := api.Tenant(t).User(t, "admin")
		other.Get(t, "/api/v1/settings").Shows(map[string]string{"farm_url": "null"})
		signIn(t, other).get(t, "/settings").hides(t, "192.168.1.30")

		b.get(t, "/settings").submit(t, "/settings/address", "farm_url", "").to(t, "/settings")
		labels = b.get(t, "/labels?id="+id)
		if public == "" {
			labels.shows(t, "works only on the machine of the service")
		} else if !labels.drawn(t, public+"/s/1") {
			t.Errorf("the label without an address has another one: %s", labels.text)
		}
	}
}

// Without PUBLIC_URL, the address is that of the browser, and pages say so, and if it leads only to the machine itself.
func TestLocalAddress(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{Change: func(c *server.Config) {
		c.TrustedProxies, _ = server.ParsePrefixes("127.0.0.1")
	}})
	tenant := api.Tenant(t)
	admin, operator := tenant.User(t, "admin"), tenant.User(t, "operator")
	id := admin.NewSpool(t, 500, nil)
	// get returns a page that the browser has opened at another address, of http or https.
	get := func(b *browser, address, path string) *page {
		t.Helper()
		r, err := http.NewRequest("GET", api.URL+path, nil)
		testkit.Check(t, err)
		scheme, host, _ := strings.Cut(address, "://")
		name := "spoolwright" + host[strings.LastIndexByte(host, ':'):]
		if r.Host = host; scheme == "https" {
			name = "__Host-" + name
			r.Header.Set("X-Forwarded-Proto", "https")
		}
		session := b.client.Jar.Cookies(b.url(t, "/"))[0].Value
		r.AddCookie(&http.Cookie{Name: strings.Replace(name, ":", "-", 1), Value: session})
		return newBrowser(t, api.URL).send(t, r).want(t, 200)
	}
	b := signIn(t, admin)
	for _, address := range []string{"http://127.0.0.1:80", "http://127.1.2.3:80", "http://localhost:80",
		"http://[::1]:80", "https://LOCALHOST:80", "https://farm.localhost:80", "https://0.0.0.0:80"} {
		p := get(b, address, "/labels?id="+id).shows(t, address+" works only on the machine of the service")
		if !p.drawn(t, address+"/s/1") || !strings.Contains(p.text, `href="/settings#address"`) {
			t.Errorf("%s: %s", address, p.text)
		}
		get(b, address, "/settings").shows(t, address+" works only on the machine").hides(t, "Scan this code")
	}
	get(signIn(t, operator), "http://localhost:80", "/labels?id="+id).shows(t, "An administrator can set the address").
		hides(t, "Set the address of the farm")
	for _, address := range []string{"https://farm.example:80", "https://192.168.1.20:80",
		"https://127.0.0.1.example:80", "https://localhost.example:80"} {
		if p := get(b, address, "/labels?id="+id).hides(t, "works only on"); !p.drawn(t, address+"/s/1") {
			t.Errorf("%s: %s", address, p.text)
		}
		get(b, address, "/labels?id="+id).shows(t, address+" is the address that your browser uses.")
		settings := get(b, address, "/settings").shows(t, "Save it, or enter another one.")
		if proposed := settings.form(t, "/settings/address").Get("farm_url"); proposed != address ||
			!settings.drawn(t, address+"/") {
			t.Errorf("%s: the settings propose %q", address, proposed)
		}
		admin.Get(t, "/api/v1/settings").Shows(map[string]string{"farm_url": "null"})
	}
}

// The certificate of the service's own authority is there for devices that have to install it, and for nobody else.
func TestAuthorityToInstall(t *testing.T) {
	t.Parallel()
	const certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
	api := newAPI(t, testkit.Options{Pages: func(c *web.Config) {
		c.Authority = func() []byte { return []byte(certificate) }
	}})
	b := newBrowser(t, api.URL)
	b.get(t, "/sign-in").want(t, 200).shows(t, "Install the certificate of this farm")
	file := b.get(t, "/farm-ca.crt").want(t, 200)
	testkit.Equal(t, file.text, certificate, "the file")
	testkit.Equal(t, file.header.Get("Content-Type"), "application/x-x509-ca-cert", "its type")
	admin := signIn(t, api.Tenant(t).User(t, "admin"))
	admin.get(t, "/settings").shows(t, "Certificate of this farm")
	admin.get(t, "/settings/keys").submit(t, "/settings/keys", "name", "MK4", "role", "printer").want(t, 200).
		shows(t, "curl -k "+api.URL+"/farm-ca.crt")

	other := newAPI(t, testkit.Options{})
	newBrowser(t, other.URL).get(t, "/sign-in").hides(t, "Install the certificate")
	newBrowser(t, other.URL).get(t, "/farm-ca.crt").want(t, 404)
	signIn(t, other.Tenant(t).User(t, "admin")).get(t, "/settings").hides(t, "Certificate of this farm")
}
