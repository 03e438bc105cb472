package webhooks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/value"
	"spoolwright/value/language"
)

// The URL of a webhook of the format email is mailto: and the address of a user of the tenant. A worker sends all due
// events of such a webhook in one e-mail: usually one event at once, several events that waited because of a limit,
// or, if the webhook is daily, the events of a day.

const (
	maxPerHour  = 60  // e-mails of the webhooks of a tenant, in all instances together
	maxPerEmail = 500 // events; further ones go into another e-mail
	maxSending  = 8   // e-mails that an instance sends at a time
	mailto      = "mailto:"
)

// errRecipient is the error of a URL whose address belongs to no user who may get e-mails.
var errRecipient = server.Invalid("url",
	"must have the address of a user of the farm who has set a password and is not disabled")

// checkEmail returns an error unless a webhook of the format email can have the URL. readRecipient checks the user.
func (s *Service) checkEmail(text string) error {
	if s.Mail == nil {
		return server.Invalid("format", "cannot be email: the service has no mail server, see its setting SMTP_URL")
	}
	to, ok := strings.CutPrefix(text, mailto)
	if !ok || strings.ContainsAny(to, "?#%") || mail.CheckAddress(to) != nil {
		return server.Invalid("url", "must be mailto: and one address, such as mailto:ada@farm.example")
	}
	return nil
}

// isRecipient is the condition that the user u has the address in the parameter or column, and may get e-mails. Admins
// can create users with the addresses of strangers; these get no e-mails until they agree by setting a password.
func isRecipient(address string) string {
	return `lower(u.email collate "und-x-icu") = lower(` + address + ` collate "und-x-icu")
		and u.disabled_at is null and u.password_hash <> ''`
}

// readRecipient returns a statement that reads whether a webhook of the format email can have the URL.
func readRecipient(url string, may *bool) *db.Stmt {
	return db.SQL(`select exists (select from users u where `+isRecipient("$1::text")+`)`,
		strings.TrimPrefix(url, mailto)).Into(may)
}

// stepEmail is step for the format email. Events that arrive while an e-mail is sent go into the next one.
func (w *worker) stepEmail(ctx, sending context.Context) (ended bool, err error) {
	stop := w.mustStop(ctx)
	for i, d := range w.loaded { // messages take less memory than bodies
		if d.Body != "" {
			w.loaded[i].message, w.loaded[i].Body = newMessage([]byte(d.Body), w.PublicURL, w.receiver), ""
		}
	}
	if load := !stop && w.look && len(w.loaded) < maxPerEmail; load || len(w.done) > 0 {
		_, err := w.exchange(load)
		return false, err
	}
	if len(w.loaded) == 0 {
		return w.leave(stop), nil
	}
	batch := w.loaded[:min(len(w.loaded), maxPerEmail)]
	w.loaded = w.loaded[len(batch):]
	for _, d := range batch {
		w.running[d.ID] = true
	}
	w.wait()
	w.collect(w.tryEmail(sending, w.receiver, batch)...)
	w.look = true
	return false, nil
}

// tryEmail sends deliveries in one e-mail, once.
func (w *worker) tryEmail(sending context.Context, to receiver, batch []due) []result {
	all := func(o outcome, dropped bool) []result {
		results := make([]result, len(batch))
		for i, d := range batch {
			results[i] = result{due: d, outcome: o, dropped: dropped}
		}
		return results
	}
	o := outcome{began: time.Now(), err: to.problem}
	if o.err == "" && w.Mail == nil {
		o.err = language.Sprintf("the service has no mail server: the setting SMTP_URL is empty")
	}
	if o.err != "" {
		return all(o, false)
	}
	select {
	case w.emails <- struct{}{}:
		defer func() { <-w.emails }()
	case <-w.requests.Done():
		return all(o, true)
	}
	o.began = time.Now()
	pause, may, err := w.countEmail(to.url)
	switch {
	case err != nil:
		o.err = language.Sprintf("the e-mails of the farm could not be counted")
		return all(o, false)
	case !may:
		o.permanent = true
		o.err = language.Sprintf("no user of the farm who has set a password and is not disabled has the address")
		return all(o, false)
	case pause > 0:
		w.postpone(batch, pause, language.Sprintf("waits: the webhooks of a farm can send %d e-mails in an hour",
			maxPerHour))
		return all(o, true)
	}
	ctx, cancel := context.WithTimeout(w.requests, w.Timeout)
	defer cancel()
	err = w.Mail.Send(ctx, newEmail(to, batch, w.PublicURL, w.ID))
	o.took = time.Since(o.began)
	var failed *mail.Error
	switch {
	case err == nil:
		o.code = 250
	case !errors.As(err, &failed):
		o.err = err.Error()
	case failed.Again > 0:
		w.postpone(batch, failed.Again, language.Sprintf("waits: %s", failed.Reason))
		return all(o, true)
	case failed.Code != 0:
		o.code, o.response, o.permanent = failed.Code, failed.Reason, failed.Permanent
	default:
		o.err = failed.Reason
	}
	if o.code == 0 && w.requests.Err() != nil {
		return all(w.interrupted(sending, o))
	}
	return all(o, false)
}

// countEmail counts an e-mail of the tenant, if the URL may get one. If there were too many in this hour, it returns
// the time until the next one. Failed tries also count.
func (w *worker) countEmail(url string) (pause time.Duration, may bool, err error) {
	var left float64
	counted := db.SQL(`
		insert into webhook_emails as e (hour, sent)
		select date_trunc('hour', now(), 'UTC'), 1 from users u where `+isRecipient("$2::text")+` limit 1
		on conflict (tenant_id) do update
			set hour = greatest(e.hour, excluded.hour), sent = case when e.hour < excluded.hour then 1 else e.sent + 1 end
			where e.hour < excluded.hour or e.sent < $1
		returning sent`, maxPerHour, strings.TrimPrefix(url, mailto))
	next := db.SQL(`
		select extract(epoch from date_trunc('hour', now(), 'UTC') + interval '1 hour' - now())::float8`).Into(&left)
	if err := w.Write(readRecipient(url, &may), counted, next); err != nil || counted.Rows() > 0 {
		return 0, may, err
	}
	left += 1 + 60*rand.Float64() // spreads the webhooks of all farms
	return time.Duration(left * float64(time.Second)), may, nil
}

// postpone makes deliveries due later, without counting a try. After an error of the database they are due now, and
// the next try postpones them.
func (w *worker) postpone(batch []due, pause time.Duration, reason string) {
	ids := make([]string, len(batch))
	for i, d := range batch {
		ids[i] = d.ID
	}
	err := w.Write(db.SQL(`
		update webhook_deliveries set next_try_at = now() + make_interval(secs => $3), error = $4
		where tenant_id = $1 and id = any ($2::uuid[]) and next_try_at is not null`,
		w.Tenant, ids, pause.Seconds(), reason))
	if err != nil {
		w.Log.Debug("cannot postpone e-mails of a webhook; trying again", "webhook", w.ID, "error", err)
	}
}

// newEmail returns the e-mail with the messages of deliveries. site is the address of the farm, or "".
func newEmail(to receiver, batch []due, site, webhook string) mail.Message {
	value.Sort(batch, func(a, b due) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	var text strings.Builder
	var titles []string
	counts, id := map[string]int{}, sha256.New()
	for _, d := range batch {
		fmt.Fprintf(&text, "%s  %s\n", d.At, d.message.Sentence())
		if d.message.Link != "" {
			fmt.Fprintf(&text, "%s\n", d.message.Link)
		}
		text.WriteString("\n")
		if counts[d.message.Title]++; counts[d.message.Title] == 1 {
			titles = append(titles, d.message.Title)
		}
		id.Write([]byte(d.ID)) // a hash returns no errors
	}
	subject := batch[0].message.Sentence()
	if len(batch) > 1 {
		for i, title := range titles {
			titles[i] = fmt.Sprintf("%d × %s", counts[title], title)
		}
		subject = strings.Join(titles, ", ")
	}
	l := language.First(to.language)
	text.WriteString("-- \n")
	if site != "" {
		text.WriteString(l.Text("You get this e-mail as a user of the farm %s. Its admins choose the events, and can end "+
			"the e-mails:", line(to.farm)) + "\n" + site + "/settings/webhooks/" + webhook + "\n")
	} else {
		text.WriteString(l.Text("You get this e-mail as a user of the farm %s. Its admins choose the events, and can end "+
			"the e-mails.", line(to.farm)) + "\n")
	}
	return mail.Message{To: strings.TrimPrefix(to.url, mailto), Subject: subject, Text: text.String(),
		ID: hex.EncodeToString(id.Sum(nil)[:16])}
}
