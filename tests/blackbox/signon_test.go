package blackbox_test

import (
	"bytes"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"spoolwright/tests/testkit"
)

// TestSignOnProvider signs on at a real provider: the npm package oidc-provider, which is certified. .ci/run installs
// it:
//
//	OIDC_PROVIDER  directory with the npm package oidc-provider
//
// The service knows the provider's three clients one after the other: with RS256 and a secret in the header, with ES256
// and a secret in the body, and with EdDSA and no secret.
func TestSignOnProvider(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	folder := os.Getenv("OIDC_PROVIDER")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "oidc-provider")); err != nil || folder == "" {
		skipTest(t, "OIDC_PROVIDER lacks the npm package oidc-provider")
	}
	needTools(t, "node")
	ports := freePorts(t, "127.0.0.1", 2)
	site, issuer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	c, token := startWithAdmin(t, buildProgram(t), append([]string{loopbackWebhooks, "PUBLIC_URL=" + site,
		"LISTEN_ADDR=127.0.0.1:" + ports[0]}, noLimits...)...)
	put := func(client string) map[string]any {
		t.Helper()
		body := map[string]any{"issuer": issuer, "client_id": client, "email_domain": "farm.example",
			"role_claim": "groups", "operator_value": "printing"}
		if client != "EdDSA" {
			body["client_secret"] = "a secret: of+the client"
		}
		status, answer := c.call(t, token, "PUT", "/api/v1/sign-on", body)
		if status != 200 {
			t.Fatalf("%d %v", status, answer)
		}
		return answer
	}
	at := put("RS256")
	startProvider(t, folder, ports[1], at["redirect_uri"].(string))
	for _, client := range []string{"RS256", "ES256", "EdDSA"} {
		put(client)
		for _, name := range []string{"ada", "bob"} {
			status, page := signOnAs(t, at["sign_on_url"].(string), name)
			if status != 200 || !strings.Contains(page, name+"@farm.example") {
				t.Errorf("%s, %s: %d %s", client, name, status, page)
			}
		}
		if status, page := signOnAs(t, at["sign_on_url"].(string), "mallory"); status != 403 ||
			!strings.Contains(page, "has not verified") {
			t.Errorf("%s, mallory: %d %s", client, status, page)
		}
	}
	// The command added ada; bob became a user with the name and the role that the provider sent.
	status, users := c.call(t, token, "GET", "/api/v1/users?sort_by=email&sort_order=asc", nil)
	bob, _ := users["items"].([]any)[1].(map[string]any)
	if status != 200 || users["total"].(float64) != 2 || bob["name"] != "Dr. bob" || bob["role"] != "operator" {
		t.Errorf("%d %v", status, users)
	}
	c.stop(t, syscall.SIGTERM)
}

// startProvider starts the provider on the port, and waits until it listens.
func startProvider(t *testing.T, folder, port, redirectURI string) {
	t.Helper()
	var output testkit.Log
	provider := exec.Command("node", "testdata/sign-on/provider.mjs", folder, port, redirectURI)
	provider.Stdout, provider.Stderr = &output, &output
	check(t, provider.Start())
	t.Cleanup(func() {
		provider.Process.Kill()
		provider.Wait()
		if t.Failed() {
			t.Logf("output of the provider:\n%s", output.String())
		}
	})
	eventually(t, "the provider listens", func() bool { return strings.Contains(output.String(), "ready") })
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	formInput  = regexp.MustCompile(`<input[^>]* name="([^"]*)"(?:[^>]* value="([^"]*)")?`)
)

// signOnAs opens an address with a new browser and sends the forms of the provider, with the name, until the browser is
// back. It returns the page of the account.
func signOnAs(t *testing.T, address, name string) (status int, page string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	browser := &http.Client{Jar: jar, Transport: transport}
	read := func(r *http.Response, err error) (*http.Response, string) {
		t.Helper()
		check(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		check(t, err)
		return r, string(bytes.TrimSpace(text))
	}
	response, page := read(browser.Get(address + "?next=/account"))
	for range 5 {
		at := response.Request.URL
		if !strings.Contains(at.Path, "/interaction/") {
			break
		}
		action := formAction.FindStringSubmatch(page)
		if action == nil {
			t.Fatalf("%s has no form: %s", at, page)
		}
		form := url.Values{"login": {name}, "password": {"any"}}
		for _, in := range formInput.FindAllStringSubmatch(page, -1) {
			if in[2] != "" {
				form.Set(in[1], html.UnescapeString(in[2]))
			}
		}
		to, err := at.Parse(html.UnescapeString(action[1]))
		check(t, err)
		response, page = read(browser.PostForm(to.String(), form))
	}
	return response.StatusCode, page
}
