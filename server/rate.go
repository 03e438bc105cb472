package server

import (
	"net/http"
	"strconv"
	"time"

	"spoolwright/server/limit"
)

// The limits of API keys of printers and watchers, because these report every few seconds. A limit of users that is
// higher applies to them too, and a limit that is turned off for users is off for them. The printers and watchers of a
// tenant do not use up the limit of the tenant's users.
const (
	printerPerMinute = 300
	printerPerHour   = 3600
	watcherPerMinute = 600
	watcherPerHour   = 36000
	printersPerUsers = 3 // the limit of all of them in a tenant, as a multiple of the limit of all its users
)

// byCaller counts a request in the limits of the caller and the caller's tenant or, without a caller, in those of the
// client's address. A request of Server.Call counts in no limit.
func (s *Server) byCaller(w http.ResponseWriter, r *http.Request) error {
	info := infoOf(r)
	switch {
	case info.called:
		return nil
	case !info.known:
		return s.limitAddress(w, info)
	}
	rate, ok := s.limiter.Take(s.callerClaims(info))
	return s.limited(w, rate, ok)
}

// limitAddress counts a request in the limits of the client's address.
func (s *Server) limitAddress(w http.ResponseWriter, info *requestInfo) error {
	rate, ok := s.limiter.Take(s.addressClaim(info))
	return s.limited(w, rate, ok)
}

func (s *Server) limits(c Caller) limit.Limits {
	switch {
	case c.Watcher:
		return limit.Limits{PerMinute: orOff(s.PerMinute, watcherPerMinute), PerHour: orOff(s.PerHour, watcherPerHour)}
	case c.Printer:
		return limit.Limits{PerMinute: orOff(s.PerMinute, printerPerMinute), PerHour: orOff(s.PerHour, printerPerHour)}
	}
	return limit.Limits{PerMinute: s.PerMinute, PerHour: s.PerHour}
}

// callerClaims returns the claims of the caller, and of all callers of the tenant.
func (s *Server) callerClaims(info *requestInfo) (own, tenants limit.Claim) {
	actor, limits := info.caller.Actor, s.limits(info.caller)
	if info.caller.Printer || info.caller.Watcher {
		return limit.Claim{Key: "printer:" + actor.APIKey, Limits: limits},
			claim("printers:"+actor.Tenant, printersPerUsers*s.TenantPerMinute, 0)
	}
	return limit.Claim{Key: "user:" + actor.ID(), Limits: limits}, claim("tenant:"+actor.Tenant, s.TenantPerMinute, 0)
}

// limited sets the headers of rate limits, and returns a 429 unless ok is set. RateLimit and RateLimit-Policy are those
// of draft-ietf-httpapi-ratelimit-headers; their t is when one more request passes, not when the limit is full again.
func (s *Server) limited(w http.ResponseWriter, rate limit.Rate, ok bool) error {
	if !rate.Off {
		h := w.Header()
		// Header.Set would spell the names X-Ratelimit.
		v := []string{strconv.Itoa(rate.Limit), strconv.Itoa(rate.Remaining),
			strconv.FormatInt(rate.Reset.Add(time.Second-1).Unix(), 10), "", ""}
		name, window := `"minute"`, ";w=60"
		if rate.Window == time.Hour {
			name, window = `"hour"`, ";w=3600"
		}
		v[3] = name + ";q=" + v[0] + window
		v[4] = name + ";r=" + v[1] + ";t=" + strconv.Itoa(int((rate.Next+time.Second-1)/time.Second))
		h["X-RateLimit-Limit"], h["X-RateLimit-Remaining"], h["X-RateLimit-Reset"] = v[:1:1], v[1:2:2], v[2:3:3]
		h["RateLimit-Policy"], h["RateLimit"] = v[3:4:4], v[4:]
	}
	if ok {
		return nil
	}
	return s.tooMany(rate)
}

// orOff returns the higher of two limits, or 0 if the limit of users is turned off.
func orOff(users, printers int) int {
	if users == 0 {
		return 0
	}
	return max(users, printers)
}

func (s *Server) addressClaim(info *requestInfo) limit.Claim {
	return claim("addr:"+info.address, s.PerMinute, s.PerHour)
}

func claim(key string, perMinute, perHour int) limit.Claim {
	return limit.Claim{Key: key, Limits: limit.Limits{PerMinute: perMinute, PerHour: perHour}}
}

// byForgeries returns a 429 if a bucket of the client's address is empty. It takes no token, because only requests
// without valid credentials count for the address.
func (s *Server) byForgeries(_ http.ResponseWriter, r *http.Request) error { return infoOf(r).admit() }

// admit is byForgeries, for Authenticate.
func (i *requestInfo) admit() error {
	if rate, ok := i.server.limiter.Peek(i.server.addressClaim(i)); !ok {
		return tooMany(rate)
	}
	return nil
}

func (s *Server) tooMany(rate limit.Rate) *Error {
	s.Metrics.Limited()
	return tooMany(rate)
}

func tooMany(rate limit.Rate) *Error {
	e := *ErrTooMany
	e.RetryAfter = max(rate.RetryAfter, 1)
	return &e
}

// pagesPerMinute is the limit of a client address for requests outside /api/v1 that have no other limit: requests of
// people who are not signed in, except forms, and requests for documentation and assets. Without a limit per minute
// for the API, such as in a test, this limit is off too. /healthz and /readyz have no limit, because they cost next to
// nothing, and because a load balancer that gets a 429 would stop using the instance.
const pagesPerMinute = 600

// byAddress counts a request in pagesPerMinute.
func (s *Server) byAddress(_ http.ResponseWriter, r *http.Request) error {
	if s.PerMinute <= 0 {
		return nil
	}
	if rate, ok := s.limiter.Take(claim("page:"+infoOf(r).address, pagesPerMinute, 0)); !ok {
		return s.tooMany(rate)
	}
	return nil
}

// byVisit returns a 429 if the caller of a page has no request left. It takes no token: CountVisit does, after the
// page has checked the session of the cookie. Requests without a caller, for pictures and for public pages count for
// the client's address: a POST, such as a login, in its limits, and other requests in pagesPerMinute.
func (s *Server) byVisit(p SitePage) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		info := infoOf(r)
		if info.counted = !info.known || p.Picture || p.Public; info.counted {
			if r.Method == http.MethodPost {
				return s.limitAddress(w, info)
			}
			return s.byAddress(w, r)
		}
		if rate, ok := s.limiter.Peek(s.endedClaim(info)); !ok {
			return s.limited(w, rate, ok)
		}
		if rate, ok := s.limiter.Peek(s.callerClaims(info)); !ok {
			return s.limited(w, rate, ok)
		}
		return nil
	}
}

// endedClaim is the claim of a session that has ended. It limits how often such a session is looked up.
func (s *Server) endedClaim(info *requestInfo) limit.Claim {
	return claim("ended:"+info.caller.Actor.Session, s.PerMinute, s.PerHour)
}

// CountVisit counts the request of a page, once, after the check of the caller's session. Err is the error of the
// check. If the session has ended, the request counts for the client's address, because anybody may have the cookie;
// otherwise it counts for the caller. CountVisit returns a 429 if a limit is reached.
func (s *Server) CountVisit(w http.ResponseWriter, r *http.Request, err error) error {
	info := infoOf(r)
	if info.counted || info.caller.Actor.User == "" {
		return nil
	}
	info.counted = true
	if err != nil && asError(err).Status == http.StatusUnauthorized {
		s.limiter.Take(s.endedClaim(info))
		return s.limitAddress(w, info)
	}
	return s.byCaller(w, r)
}

// messagesPerMinute is the limit of messages to one address of a Receiver. Senders repeat rejected messages later.
// Without a limit per minute for the API, this limit is off too.
const messagesPerMinute = 120

// countMessage counts a message in the limit of the receiver's id if its signature is right, and otherwise in the
// limits of the client's address.
func (s *Server) countMessage(w http.ResponseWriter, info *requestInfo, id string, signed bool) error {
	switch {
	case !signed:
		return s.limitAddress(w, info)
	case s.PerMinute <= 0:
		return nil
	}
	rate, ok := s.limiter.Take(claim("messages:"+id, messagesPerMinute, 0))
	return s.limited(w, rate, ok)
}
