package webhooks_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

const farmURL = "https://farm.example"

// chat is a service that takes messages: it answers as the documentation of the service says, and returns the text
// that people see, before the service interprets it.
type chat func(w http.ResponseWriter, r *http.Request) (text, link string)

// refuse answers with an error, in the form of the service.
func refuse(w http.ResponseWriter, status int, body string, args ...any) (string, string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, body, args...)
	return "", ""
}

// decodeJSON reads a body of the type application/json.
func decodeJSON(r *http.Request, into any) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, err2 := io.ReadAll(r.Body)
	return err == nil && err2 == nil && kind == "application/json" && json.Unmarshal(body, into) == nil
}

func discord(w http.ResponseWriter, r *http.Request) (string, string) {
	var m struct {
		Content  string
		Mentions *struct{ Parse []string } `json:"allowed_mentions"`
	}
	switch length := 0; {
	case r.URL.Path != "/api/webhooks/123/abc-DEF_1":
		return refuse(w, 404, `{"message": "Unknown Webhook", "code": 10015}`)
	case !decodeJSON(r, &m):
		return refuse(w, 400, `{"message": "The request body contains invalid JSON.", "code": 50109}`)
	case m.Content == "":
		return refuse(w, 400, `{"message": "Cannot send an empty message", "code": 50006}`)
	default:
		if length = len(utf16.Encode([]rune(m.Content))); length > 2000 {
			return refuse(w, 400, `{"content": ["Must be 2000 or fewer in length."]}`)
		}
	}
	if m.Mentions == nil || m.Mentions.Parse == nil || len(m.Mentions.Parse) > 0 {
		return refuse(w, 400, `{"message": "the message mentions everyone"}`)
	}
	w.WriteHeader(204)
	text, link, _ := strings.Cut(m.Content, "\n")
	return text, strings.Trim(link, "<>")
}

func slack(w http.ResponseWriter, r *http.Request) (string, string) {
	var m map[string]any
	switch {
	case r.URL.Path != "/services/T0/B0/XX":
		return refuse(w, 404, "no_service")
	case !decodeJSON(r, &m):
		return refuse(w, 400, "invalid_payload")
	}
	all, _ := m["text"].(string)
	if all == "" || len(m) != 1 {
		return refuse(w, 400, "no_text")
	}
	if utf8.RuneCountInString(all) > 4000 {
		return refuse(w, 400, "msg_too_long")
	}
	io.WriteString(w, "ok")
	text, link, _ := strings.Cut(all, "\n")
	return text, link
}

func ntfy(w http.ResponseWriter, r *http.Request) (string, string) {
	body, err := io.ReadAll(r.Body)
	title := r.Header.Get("Title")
	switch {
	case r.URL.Path != "/my-farm":
		return refuse(w, 404, `{"code":40401,"http":404,"error":"page not found"}`)
	case r.Header.Get("Authorization") != "Bearer tk_secret":
		return refuse(w, 403, `{"code":40301,"http":403,"error":"forbidden"}`)
	case err != nil || len(body) == 0 || !utf8.Valid(body):
		return refuse(w, 400, `{"code":40026,"http":400,"error":"invalid message"}`)
	case len(body) > 4096: // becomes an attachment
		return refuse(w, 413, `{"code":41301,"http":413,"error":"attachment too large"}`)
	case title == "" || strings.ContainsFunc(title, func(r rune) bool { return r > 0x7e || r < ' ' }):
		return refuse(w, 400, `{"code":40000,"http":400,"error":"the title is not ASCII"}`)
	}
	io.WriteString(w, `{"id":"sPs71M8A2T","event":"message","topic":"my-farm"}`)
	return title + ": " + string(body), r.Header.Get("Click")
}

func gotify(w http.ResponseWriter, r *http.Request) (string, string) {
	var m struct {
		Title, Message string
		Extras         struct {
			Display struct{ ContentType string }         `json:"client::display"`
			Notify  struct{ Click struct{ URL string } } `json:"client::notification"`
		}
	}
	switch {
	case r.URL.Path != "/push/message":
		return refuse(w, 404, `{"error":"Not Found","errorCode":404,"errorDescription":"page not found"}`)
	case r.Header.Get("X-Gotify-Key") != "A.secret" && r.URL.Query().Get("token") != "A.secret":
		return refuse(w, 401, `{"error":"Unauthorized","errorCode":401}`)
	case !decodeJSON(r, &m) || m.Message == "" || m.Extras.Display.ContentType != "text/plain":
		return refuse(w, 400, `{"error":"Bad Request","errorCode":400,"errorDescription":"Field 'message' is required"}`)
	}
	io.WriteString(w, `{"id":25,"appid":5}`)
	return m.Title + ": " + m.Message, m.Extras.Notify.Click.URL
}

func teams(w http.ResponseWriter, r *http.Request) (string, string) {
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct {
					Type    string
					Inlines []struct{ Type, Text string }
				}
				Actions []struct{ Type, Title, URL string }
			}
		}
	}
	if r.URL.Query().Get("sig") != "1" {
		return refuse(w, 401, `{"error":{"code":"DirectApiAuthorizationRequired"}}`)
	}
	if !decodeJSON(r, &m) || m.Type != "message" || len(m.Attachments) != 1 {
		return refuse(w, 400, `{"error":{"code":"TriggerInputSchemaMismatch"}}`)
	}
	a := m.Attachments[0]
	if c := a.Content; a.ContentType != "application/vnd.microsoft.card.adaptive" || c.Type != "AdaptiveCard" ||
		len(c.Body) != 1 || c.Body[0].Type != "RichTextBlock" || len(c.Body[0].Inlines) != 1 ||
		c.Body[0].Inlines[0].Type != "TextRun" || len(c.Actions) != 1 || c.Actions[0].Type != "Action.OpenUrl" {
		return refuse(w, 400, `{"error":{"code":"BadRequest","message":"Unsupported card"}}`)
	}
	w.WriteHeader(202)
	return a.Content.Body[0].Inlines[0].Text, a.Content.Actions[0].URL
}

// Each format reaches a receiver that refuses what the service refuses: an event with a hostile name arrives as text
// that mentions nobody, in one line, and without the headers of a signature.
func TestFormats(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.PublicURL = farmURL })
	hostile := "@everyone <!channel> *b* [x](https://e.example) & \"ö\""
	long := strings.Repeat("*", 200)
	for name, c := range map[string]struct {
		serve      chat
		url, token string
		want       string
	}{
		"discord": {discord, "/api/webhooks/123/abc-DEF_1", "",
			`Failed: 2 × \@everyone \<!channel\> \*b\* \[x\]\(https\://e.example\) & "ö" on Prusa 1, adhesion, 0 g`},
		"slack": {slack, "/services/T0/B0/XX", "", "Failed: 2 × @\u200beveryone &lt;!channel&gt; *b* " +
			"[x]\u200b(https://e.example) &amp; \"ö\" on Prusa 1, adhesion, 0 g"},
		"ntfy":   {ntfy, "/my-farm", "tk_secret", "Failed: 2 × " + hostile + " on Prusa 1, adhesion, 0 g"},
		"gotify": {gotify, "/push", "A.secret", "Failed: 2 × " + hostile + " on Prusa 1, adhesion, 0 g"},
		"teams":  {teams, "/workflows/1?sig=1", "", "Failed: 2 × " + hostile + " on Prusa 1, adhesion, 0 g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan [2]string, 10)
			s := receive(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for header := range r.Header {
					if strings.HasPrefix(strings.ToLower(header), "webhook-") {
						t.Errorf("the request has the header %s", header)
					}
				}
				text, link := c.serve(w, r)
				seen <- [2]string{text, link}
			})
			tenant := f.Tenant(t)
			admin, operator := tenant.User(t, "admin"), tenant.User(t, "operator")
			body := testkit.JSON{"url": s.URL + c.url, "format": name, "events": []string{"production_run.failed"}}
			if c.token != "" {
				body["token"] = c.token
			}
			hook := admin.Post(t, "/api/v1/webhooks", body).Want(201)
			hook.Shows(map[string]string{"format": name, "secret": ""})
			if text := f.stored(t, admin); c.token != "" && strings.Contains(text, c.token) {
				t.Error("the token is stored as text")
			}
			path := hooksPath + hook.ID()
			admin.Get(t, path).Want(200).Shows(map[string]string{"format": name})
			wait := func(want int) [2]string {
				t.Helper()
				eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": fmt.Sprint(want)})
				return <-seen
			}
			admin.Post(t, path+"/test", nil).Want(200)
			if got := wait(1); got != [2]string{"Test: This is a test.", farmURL + "/settings/webhooks/" + hook.ID()} {
				t.Errorf("the test is %q", got)
			}
			fail := func(name string) string {
				product := operator.Post(t, "/api/v1/products", testkit.JSON{"name": name}).Want(201).ID()
				run := operator.Post(t, "/api/v1/production-runs", testkit.JSON{"printer_name": "Prusa 1",
					"items": []any{testkit.JSON{"product_id": product, "quantity": 2}}}).Want(201).ID()
				operator.Post(t, "/api/v1/production-runs/"+run+"/fail", testkit.JSON{"reason": "adhesion"}).Want(200)
				return run
			}
			run := fail(hostile)
			if got := wait(2); got != [2]string{c.want, farmURL + "/runs/" + run} {
				t.Errorf("the message is %q, want %q", got, c.want)
			}
			fail(long)
			if got := wait(3); !strings.HasPrefix(got[0], "Failed: 2 × ") {
				t.Errorf("the message is %q", got)
			}

			// The token stays when something else changes, and another one replaces it.
			admin.Patch(t, path, testkit.JSON{"description": "Chat", "url": s.URL + c.url, "format": name}).Want(200)
			admin.Post(t, path+"/test", nil).Want(200)
			wait(4)
			admin.Patch(t, path, testkit.JSON{"format": "standard"}).WantError(422, "VALIDATION_ERROR")
			admin.Post(t, path+"/rotate", nil).WantError(409, "WEBHOOK_UNSIGNED")
			if c.token == "" {
				admin.Patch(t, path, testkit.JSON{"token": "x"}).WantError(422, "VALIDATION_ERROR")
				return
			}
			admin.Patch(t, path, testkit.JSON{"token": "wrong"}).Want(200)
			delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
			r := eventually(t, admin, delivery, map[string]string{"status": "failed"})
			if status := r.Text("response_status"); status != "401" && status != "403" {
				t.Errorf("a wrong token has the response %s", status)
			}
		})
	}
}

// A message without the address of the farm has no link, and a rate limit of Discord delays it.
func TestMessageWithoutLink(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	s := receive(t, nil)
	admin.Post(t, hooksPath[:len(hooksPath)-1], testkit.JSON{"url": s.URL + "/api/webhooks/1/x", "format": "discord",
		"events": []string{"order.*"}}).Want(201)
	admin.Post(t, "/api/v1/orders", testkit.JSON{"reference": "A_7"}).Want(201)
	testkit.Equal(t, string(s.wait(t).body), `{"allowed_mentions":{"parse":[]},"content":"New order: A\\_7"}`, "the body")
}

// A URL or a token with which no delivery can succeed is refused, and the response names the field.
func TestImpossibleReceivers(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{}), nil)
	admin := f.Tenant(t).User(t, "admin")
	const path = "/api/v1/webhooks"
	try := func(format, url, token string) *testkit.Response {
		body := testkit.JSON{"url": url, "events": []string{"*"}, "format": format}
		if token != "" {
			body["token"] = token
		}
		return admin.Post(t, path, body)
	}
	long := strings.Repeat("a", 64)
	for _, c := range []struct{ format, url, token, field string }{
		{"standard", "https://h.example:65536", "", "url"},
		{"standard", "https://h.example:99999/x", "", "url"},
		{"standard", "https://h.example:0/x", "", "url"},
		{"standard", "https://h..example/x", "", "url"},
		{"standard", "https://-h.example/x", "", "url"},
		{"standard", "https://" + long + ".example/x", "", "url"},
		{"standard", "https://h!.example/x", "", "url"},
		{"standard", "https://1.2.3/x", "", "url"},
		{"standard", "https://h.example/x", "t", "token"},
		{"discord", "https://discord.com/channels/1/2", "", "url"},
		{"discord", "https://discord.com/api/webhooks/1", "", "url"},
		{"discord", "https://discord.com/api/webhooks/1/x/slack", "", "url"},
		{"discord", "https://discord.com/api/webhooks/1/x", "t", "token"},
		{"slack", "https://hooks.slack.com", "", "url"},
		{"slack", "https://hooks.slack.com/", "", "url"},
		{"teams", "https://x.logic.azure.example", "", "url"},
		{"ntfy", "https://ntfy.sh", "", "url"},
		{"ntfy", "https://ntfy.sh/a/b", "", "url"},
		{"ntfy", "https://ntfy.sh/" + long + "a", "", "url"},
		{"ntfy", "https://ntfy.sh/farm", "a b", "token"},
		{"ntfy", "https://ntfy.sh/farm", "a\r\nX: y", "token"},
		{"ntfy", "https://ntfy.sh/farm", "ö", "token"},
		{"gotify", "https://push.example", "", "url"},
		{"gotify", "https://push.example/message", "", "url"},
		{"irc", "https://push.example/message", "", "format"},
	} {
		try(c.format, c.url, c.token).WantError(422, "VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": c.field})
	}
	for _, c := range [][3]string{
		{"standard", "https://h.example:65535/x"}, {"standard", "https://bücher.example/x"},
		{"standard", "https://h.example./x"}, {"standard", "https://a_b.example/"},
		{"slack", "https://chat.example/hooks/a/b"},
		{"ntfy", "https://ntfy.sh/farm"}, {"gotify", "https://push.example/sub/message?token=A"},
		{"gotify", "https://push.example", "A"},
	} {
		id := try(c[0], c[1], c[2]).Want(201).ID()
		if c[0] == "gotify" {
			admin.Patch(t, path+"/"+id, testkit.JSON{"token": "B", "url": "https://push.example/?token=C"}).Want(200)
			admin.Patch(t, path+"/"+id, testkit.JSON{"token": nil}).Want(200)
			admin.Patch(t, path+"/"+id, testkit.JSON{"url": "https://push.example/"}).WantError(422, "VALIDATION_ERROR")
		}
		admin.Patch(t, path+"/"+id, testkit.JSON{"url": "https://h.example:70000/x"}).WantError(422, "VALIDATION_ERROR")
		admin.Delete(t, path+"/"+id).Want(204)
	}
	// The token in the URL is replaced by one beside it, and meanwhile that one is to be removed.
	id := try("gotify", "https://push.example/?token=A", "B").Want(201).ID()
	h := admin.Hold(t, `update webhooks set url = 'https://push.example/' where id = '`+id+`'`)
	done := h.StartWaiting(1, func() {
		admin.Patch(t, path+"/"+id, testkit.JSON{"token": nil}).WantError(422, "VALIDATION_ERROR")
	})
	h.Commit()
	<-done
	admin.Patch(t, hooksPath+"00000000-0000-7000-8000-000000000000", testkit.JSON{"url": "https://h.example"}).
		WantError(404, "NOT_FOUND")
	admin.Post(t, hooksPath+"00000000-0000-7000-8000-000000000000/rotate", nil).WantError(404, "NOT_FOUND")
}
