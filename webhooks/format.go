package webhooks

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/value/language"
)

// Format is the format of requests that a receiver understands.
type Format string

// The formats. Only requests of the format standard have signatures.
const (
	Standard Format = "standard"
	Discord  Format = "discord"
	Email    Format = "email"
	Gotify   Format = "gotify"
	Ntfy     Format = "ntfy"
	Slack    Format = "slack"
	Teams    Format = "teams"
)

// Enum returns all formats.
func (Format) Enum() []string {
	return []string{string(Standard), string(Discord), string(Email), string(Gotify), string(Ntfy), string(Slack),
		string(Teams)}
}

// hasToken reports whether receivers of the format expect a token beside the URL.
func (f Format) hasToken() bool { return f == Gotify || f == Ntfy }

// formats has the functions of all formats except email: request makes the request to a receiver, and check returns
// the problem with the URL of a receiver, or "". checkURL has checked the URL before. check may be nil.
var formats = map[Format]struct {
	request func(d delivery) request
	check   func(u *url.URL, token string) string
}{
	Standard: {standardRequest, nil},
	Discord:  {discordRequest, checkDiscord},
	Gotify:   {gotifyRequest, checkGotify},
	Ntfy:     {ntfyRequest, checkNtfy},
	Slack:    {slackRequest, checkPath},
	Teams:    {teamsRequest, checkPath},
}

// delivery has the data from which a request is made.
type delivery struct {
	to      receiver
	id      string // of the event
	began   time.Time
	body    []byte // of the event
	message message
}

// say returns a text in the language of the receiver.
func (d delivery) say(text language.Text) string { return language.First(d.to.language).Text(text) }

// token returns the token of a receiver whose format is not standard.
func (d delivery) token() string {
	if len(d.to.secrets) == 0 {
		return ""
	}
	return string(d.to.secrets[0])
}

type request struct {
	url    string
	header http.Header
	body   []byte
}

// standardRequest has the event itself, signed as Standard Webhooks specifies.
func standardRequest(d delivery) request {
	timestamp := d.began.Unix()
	var signatures []string
	for _, secret := range d.to.secrets {
		signatures = append(signatures, signature(secret, d.id, timestamp, d.body))
	}
	return request{d.to.url, http.Header{ // Header.Set would spell the names Webhook-Id
		"Content-Type":      {"application/json"},
		"webhook-id":        {d.id},
		"webhook-timestamp": {strconv.FormatInt(timestamp, 10)},
		"webhook-signature": {strings.Join(signatures, " ")},
	}, d.body}
}

type object = map[string]any

// jsonRequest returns a request with a value as JSON.
func jsonRequest(url string, body object) request {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // the values are texts and numbers
	}
	return request{url, http.Header{"Content-Type": {"application/json"}}, b}
}

// discordSpecial are the characters that Markdown, mentions and links of Discord begin with. Discord removes a
// backslash before them.
var discordSpecial = regexp.MustCompile("[\\\\*_~`|<>\\[\\]()#@:]")

// discordRequest has a message for a webhook of a Discord channel. Nothing in the message mentions anybody, and the
// link shows no preview.
func discordRequest(d delivery) request {
	text := discordSpecial.ReplaceAllString(d.message.Sentence(), `\$0`)
	text = strings.Replace(text, `\:`, ":", 1) // after the title
	if d.message.Link != "" {
		text += "\n<" + d.message.Link + ">"
	}
	return jsonRequest(d.to.url, object{"content": text, "allowed_mentions": object{"parse": []string{}}})
}

var discordPath = regexp.MustCompile(`/webhooks/[^/]+/[^/]+$`)

func checkDiscord(u *url.URL, _ string) string {
	if !discordPath.MatchString(u.Path) {
		return language.Sprintf("must be the webhook URL of a Discord channel: https://discord.com/api/webhooks/…/…")
	}
	return ""
}

// slackEscapes escapes what Slack interprets. Mattermost and Rocket.Chat also interpret @all and Markdown links, which
// an invisible space ends.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "](", "]\u200b(")

// slackRequest has a message for an incoming webhook of Slack, Mattermost or Rocket.Chat.
func slackRequest(d delivery) request {
	text := slackEscapes.Replace(d.message.Sentence())
	if d.message.Link != "" {
		text += "\n" + d.message.Link
	}
	return jsonRequest(d.to.url, object{"text": text})
}

// teamsRequest has a message for a workflow of Microsoft Teams. A TextRun interprets nothing in its text.
func teamsRequest(d delivery) request {
	card := object{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
		"body": []any{object{"type": "RichTextBlock", "inlines": []any{
			object{"type": "TextRun", "text": d.message.Sentence()}}}},
	}
	if d.message.Link != "" {
		card["actions"] = []any{object{"type": "Action.OpenUrl", "title": d.say("Open|verb"), "url": d.message.Link}}
	}
	return jsonRequest(d.to.url, object{"type": "message", "attachments": []any{object{
		"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}})
}

// checkPath requires an address with more than a host, because the path contains the secret.
func checkPath(u *url.URL, _ string) string {
	if strings.Trim(u.Path, "/") == "" {
		return language.Sprintf("must be the whole URL of the incoming webhook, with its path")
	}
	return ""
}

// ntfyRequest has a message for a topic of ntfy. The title is encoded as in RFC 2047 if it is not ASCII.
func ntfyRequest(d delivery) request {
	text := d.message.Text
	text = cmp.Or(text, d.message.Title)
	r := request{d.to.url, http.Header{"Content-Type": {"text/plain; charset=utf-8"},
		"Title": {mime.BEncoding.Encode("utf-8", d.message.Title)}}, []byte(text)}
	if d.message.Link != "" {
		r.header.Set("Click", d.message.Link)
	}
	if token := d.token(); token != "" {
		r.header.Set("Authorization", "Bearer "+token)
	}
	return r
}

var ntfyTopic = regexp.MustCompile(`^/[-_A-Za-z0-9]{1,64}$`)

func checkNtfy(u *url.URL, _ string) string {
	if !ntfyTopic.MatchString(u.Path) {
		return language.Sprintf("must end with a topic, such as https://ntfy.sh/my-farm: at most 64 letters, digits, " +
			"- and _")
	}
	return ""
}

// gotifyRequest has a message for an application of Gotify, whose token is in the URL or beside it.
func gotifyRequest(d delivery) request {
	to := d.to.url
	if u, err := url.Parse(to); err == nil && !strings.HasSuffix(u.Path, "/message") {
		to = u.JoinPath("message").String()
	}
	extras := object{"client::display": object{"contentType": "text/plain"}}
	if d.message.Link != "" {
		extras["client::notification"] = object{"click": object{"url": d.message.Link}}
	}
	text := d.message.Text
	text = cmp.Or(text, d.message.Title)
	r := jsonRequest(to, object{"title": d.message.Title, "message": text, "extras": extras})
	if token := d.token(); token != "" {
		r.header.Set("X-Gotify-Key", token)
	}
	return r
}

func checkGotify(u *url.URL, token string) string {
	if token == "" && u.Query().Get("token") == "" {
		return language.Sprintf("needs the token of an application: in the field token, or as ?token=… of the URL")
	}
	return ""
}

// checkToken returns the problem with the token of a receiver, or "". The token becomes a part of a header field.
func checkToken(token string) string {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return language.Sprintf("must consist of ASCII characters without spaces")
	}
	return ""
}

// hostLabel is a part of a host name. Some names in use have an underscore.
var hostLabel = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

// checkHost returns the problem with the name of a host, or "". The name is no IP address.
func checkHost(name string) string {
	problem := language.Sprintf("must name a host, such as hooks.farm.example")
	name = strings.TrimSuffix(name, ".")
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case len(name) > 253, strings.Contains(name, ":"):
		return problem
	case strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "" // an international name, which a request converts
	case slices.ContainsFunc(labels, func(label string) bool { return !hostLabel.MatchString(label) }),
		strings.Trim(last, "0123456789") == "": // no domain ends with digits: 1.2.3 is no address
		return problem
	}
	return ""
}

// localDomains are the domains without addresses in the public internet (RFC 6761, 6762, 8375, 9476, and a reservation
// by ICANN).
var localDomains = []string{"localhost", "local", "internal", "home.arpa", "invalid", "alt"}

// isLocal reports whether a name of a host can only have an address in a private network, or none.
func isLocal(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return !strings.Contains(name, ".") || slices.ContainsFunc(localDomains, func(domain string) bool {
		return name == domain || strings.HasSuffix(name, "."+domain)
	})
}

// checkPort returns the problem with the port of a URL, or "" if it has none.
func checkPort(port string) string {
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return language.Sprintf("must have a port from 1 to 65535")
	}
	return ""
}
