package auth

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/value/language"
)

// A LinkMailer sends the e-mails with password links. Each row of link_emails is an e-mail for a user; the item of the
// queue is the user's id. The LinkMailer makes the link when it sends the e-mail, so that no table has the token, and
// the link is valid for 24 hours after that. Each try replaces the link of the previous one.

// SendLinks allows requests to ask for e-mails with links, which a LinkMailer sends. Links begin with site, the origin
// of the service. Without a sender or a site, no e-mails are sent.
func (s *Service) SendLinks(sender *mail.Sender, site string) { s.mail, s.site = sender, site }

// CanSendLinks reports whether the service can send links by e-mail. It needs a mail server, and the setting
// PUBLIC_URL: a request must not decide to which address a link leads.
func (s *Service) CanSendLinks() bool { return s.mail != nil && s.site != "" }

// errNoLinkMail is the error of a request for an e-mail that the service cannot send.
var errNoLinkMail = server.Invalid("send",
	"cannot be true: the service sends no e-mails with links, see its settings SMTP_URL, PUBLIC_URL and WEB")

// queueLink returns two statements. The first makes an e-mail with a link due now, if the user is enabled, meets the
// condition and has no waiting e-mail; it returns a row if the user is enabled and meets the condition. The second
// adds the user to the queue; a LinkMailer does nothing for a user without a due e-mail.
func queueLink(user, condition string, args ...any) (row, queue *db.Stmt) {
	row = db.SQL(`
		with u as materialized (
			select u.id, case when u.password_hash = '' then 'invitation' else 'password' end as kind
			from users u where u.id = $1 and u.disabled_at is null and (`+condition+`) for no key update
		), due as (
			insert into link_emails as e (user_id, kind, next_try_at) select u.id, u.kind, now() from u
			on conflict (tenant_id, user_id) do update
				set kind = excluded.kind, requested_at = now(), tries = 0, next_try_at = now(), ended_at = null, error = null
				where e.next_try_at is null
		)
		select id from u`, append([]any{user}, args...)...)
	queue = db.SQL(`select queue_add(array[$1]::uuid[], $2)::text from users u where u.id = $1`, user, db.Link)
	return row, queue
}

// maxForgotten is the maximum number of requests for links whose users are looked up at a time.
const maxForgotten = 100

// forgottenPause is the minimum time between two links of a user who asks, so that nobody is flooded with e-mails.
const forgottenPause = time.Hour

// CountForgotten counts a request for a link as a failed login for the address of the client. The error is a 429 if
// there are too many. It does not depend on whether a user has the e-mail address.
func (s *Service) CountForgotten(ctx context.Context, email, address string) error {
	done, err := s.begin(ctx, "forgotten "+EmailKey(email), address, secrets.Anonymous, nil)
	if err == nil {
		done(secrets.Failed)
	}
	return err
}

// Forgotten queues an e-mail with a link to the user with the e-mail address. It queues nothing if no user has the
// address, the user is disabled, an e-mail waits, or a link was made within the last hour. Forgotten returns before it
// looks for the user, so that the response time does not reveal whether the user exists. Stop waits for the look-up.
func (s *Service) Forgotten(ctx context.Context, email string, log *slog.Logger) {
	select {
	case s.forgotten <- struct{}{}:
	default:
		log.Warn("too many requests for forgotten passwords at a time: a request was dropped")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	s.lookups.Go(func() {
		defer func() { cancel(); <-s.forgotten }()
		if err := s.queueForgotten(ctx, email); err != nil {
			log.Warn("cannot queue the link of a forgotten password", "error", err)
		}
	})
}

func (s *Service) queueForgotten(ctx context.Context, email string) error {
	holder, found, err := s.db.FindLogin(ctx, EmailKey(email))
	if err != nil || !found {
		return err
	}
	row, queue := queueLink(holder.User,
		`u.link_expires_at is null or u.link_expires_at <= $2::timestamptz`, s.now().Add(linkFor-forgottenPause))
	return s.db.Write(db.As(ctx, db.Actor{Tenant: holder.Tenant}), row, queue)
}

// linkPauses are the pauses after the tries to send an e-mail: 25 hours together. A server that delays e-mails of
// unknown senders usually accepts them after 5 to 30 minutes.
var linkPauses = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour,
	4 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour}

// LinkMailer sends the e-mails with password links that are due. Several instances may run one each.
type LinkMailer struct {
	Service *Service
	Log     *slog.Logger
	Poll    time.Duration // interval between polls of the queue
}

const (
	maxLinkMails  = 8           // e-mails that a LinkMailer sends at a time
	linkLease     = time.Minute // longer than a try
	linksOfFarm   = 100         // users of a tenant who get a link within an hour
	linkFarmPause = 10 * time.Minute
)

// Run sends e-mails until ctx ends. It returns at once if the service can send none.
func (m *LinkMailer) Run(ctx context.Context) {
	if !m.Service.CanSendLinks() {
		return
	}
	queue := db.Worker{DB: m.Service.db, Log: m.Log, Kind: db.Link, Active: maxLinkMails, Poll: m.Poll,
		Lease: linkLease, Handle: m.handle}
	queue.Run(ctx)
}

// handle sends the e-mail of a user if it is due.
func (m *LinkMailer) handle(ctx context.Context, l *db.Lease) (next *float64, err error) {
	if ctx.Err() != nil {
		return new(0.0), nil
	}
	// A try finishes even if the service stops meanwhile: it sends the e-mail, or stores the reason in the row.
	bound := db.As(context.WithoutCancel(ctx), db.Actor{Tenant: l.Tenant})
	if err := m.try(bound, l.ID); err != nil {
		return nil, err
	}
	err = m.Service.db.Write(bound,
		db.SQL(`
			select greatest(extract(epoch from next_try_at - now()), 0)::float8 from link_emails
			where user_id = $1 and next_try_at is not null`, l.ID).Into(&next))
	return next, err
}

// dueLink is an e-mail that is being sent.
type dueLink struct {
	invitation        bool // to a user who has not set a password yet
	tries             int  // including this one
	email, name, farm string
	language          *language.Language
}

// try sends the e-mail of a user once, if it is due. It returns only errors of the database.
func (m *LinkMailer) try(ctx context.Context, user string) error {
	s := m.Service
	token := s.tokens.newLink(db.ActorOf(ctx).Tenant)
	var d dueLink
	var userLanguage, farmLanguage string
	// The first statement locks the user, like every transaction that changes the e-mails of a user. An e-mail for a
	// disabled user, or an invitation for a user who has set a password, is no longer needed.
	lock := db.SQL(`select id from users where id = $1 for no key update`, user)
	drop := db.SQL(`
		delete from link_emails e using users u
		where e.user_id = $1 and e.next_try_at is not null and u.id = e.user_id
			and (u.disabled_at is not null or e.kind = 'invitation' and u.password_hash <> '')`, user)
	// A tenant that has sent too many e-mails waits. Concurrent tries may exceed the limit by their number.
	wait := db.SQL(`
		update link_emails e set next_try_at = now() + make_interval(secs => $3),
			error = $4
		where e.user_id = $1 and e.next_try_at <= now() and (
			select count(*) from link_emails o where o.ended_at > now() - interval '1 hour' and o.error is null) >= $2::int`,
		user, linksOfFarm, linkFarmPause.Seconds(),
		language.Sprintf("the farm sends at most %d of these e-mails in an hour", linksOfFarm))
	// The row becomes due again after the pause: another try follows if the service dies during this one. Until then,
	// no other instance tries.
	claim := db.SQL(`
		update link_emails e
		set tries = e.tries + 1, error = null,
			next_try_at = now() + make_interval(secs => ($2::float8[])[least(e.tries + 1, cardinality($2::float8[]))])
		from users u cross join tenants t
		where e.user_id = $1 and e.next_try_at <= now() and u.id = e.user_id
		returning e.kind = 'invitation', e.tries, u.email, u.name, t.name, coalesce(u.language, ''),
			coalesce(t.language, '')`, user, linkPauseSeconds()).
		Into(&d.invitation, &d.tries, &d.email, &d.name, &d.farm, &userLanguage, &farmLanguage)
	link := db.SQL(`update users set link_hash = $2, link_expires_at = $3 where id = $1`,
		user, linkHash(token), s.now().UTC().Truncate(time.Second).Add(linkFor))
	err := s.db.Decide(ctx, []*db.Stmt{lock, drop, wait, claim}, func() ([]*db.Stmt, error) {
		if claim.Rows() == 0 {
			return nil, nil
		}
		return []*db.Stmt{link}, nil
	})
	if err != nil || claim.Rows() == 0 {
		return err
	}
	d.language = language.First(userLanguage, farmLanguage)
	err = s.mail.Send(ctx, linkMail(d, s.site+"/password-link/"+token))
	return m.end(ctx, user, token, d.tries, err)
}

func (m *LinkMailer) end(ctx context.Context, user, token string, tries int, result error) error {
	var failed *mail.Error
	var reason string
	if result != nil {
		reason = strings.ReplaceAll(result.Error(), token, "…") // if the server repeats the e-mail
	}
	const where = ` where user_id = $1 and tries = $2 and next_try_at is not null`
	switch {
	case result == nil:
		return m.Service.db.Write(ctx, db.SQL(`
			update link_emails set next_try_at = null, ended_at = now(), error = null`+where, user, tries))
	case errors.As(result, &failed) && failed.Again > 0: // too many e-mails to this address: does not count as a try
		return m.Service.db.Write(ctx, db.SQL(`
			update link_emails set tries = tries - 1, next_try_at = now() + make_interval(secs => $3), error = $4`+where,
			user, tries, failed.Again.Seconds(), reason))
	case errors.As(result, &failed) && failed.Permanent || tries > len(linkPauses):
		// Nobody has the link.
		return m.Service.db.Write(ctx,
			db.SQL(`update users set link_hash = null where id = $1 and link_hash = $2`, user, linkHash(token)),
			db.SQL(`update link_emails set next_try_at = null, ended_at = now(), error = $3`+where, user, tries, reason))
	}
	return m.Service.db.Write(ctx, db.SQL(`update link_emails set error = $3`+where, user, tries, reason))
}

func linkPauseSeconds() []float64 {
	seconds := make([]float64, len(linkPauses))
	for i, pause := range linkPauses {
		seconds[i] = pause.Seconds()
	}
	return seconds
}

// breaksLine reports whether a character ends a line, or is another control character.
func breaksLine(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' }

// oneLine returns a name with spaces instead of line breaks. Otherwise, a name could contain text that seems to come
// from the service.
func oneLine(name string) string {
	return strings.Join(strings.Fields(strings.Map(func(c rune) rune {
		if breaksLine(c) {
			return ' '
		}
		return c
	}, name)), " ")
}

func linkMail(d dueLink, link string) mail.Message {
	name := oneLine(d.name)
	if d.invitation {
		return mail.Message{To: d.email, Subject: d.language.Text("Your invitation to Spoolwright"),
			Text: d.language.Text("Hello %s,\n\nyou are invited to the farm %s in Spoolwright.\n"+
				"With this link you set your password. It works once, within 24 hours:\n\n%s\n\n"+
				"If you do not expect this e-mail, ignore it: nothing has changed.\n", name, oneLine(d.farm), link)}
	}
	return mail.Message{To: d.email, Subject: d.language.Text("Set your password of Spoolwright"),
		Text: d.language.Text("Hello %s,\n\n"+
			"With this link you set your password. It works once, within 24 hours:\n\n%s\n\n"+
			"If you do not expect this e-mail, ignore it: nothing has changed.\n", name, link)}
}
