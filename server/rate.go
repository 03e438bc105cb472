package server

import (
	"net/http"
	"strconv"
	"time"

	"spoolwright/server/limit"
)

// The limits of API keys of printers, because a printer reports every few seconds. A limit of users that is higher
// applies to printers too, and a limit that is turned off for users is off for printers. The printers of a tenant do
// not use up the limit of the tenant's users.
const (
	printerPerMinute = 300
	printerPerHour   = 3600
	printersPerUsers = 3 // the limit of all printers of a tenant, as a multiple of the limit of all its users
)

// limit takes one token from each bucket of the caller and the caller's tenant or, if byAddress is set, of the
// client's address. It sets the X-RateLimit headers. It returns a 429 if a bucket is empty.
func (s *Server) limit(w http.ResponseWriter, info *requestInfo, byAddress bool) *Error {
	var rate limit.Rate
	var ok bool
	switch actor := info.caller.Actor; {
	case byAddress:
		rate, ok = s.limiter.Take(s.addressClaim(info))
	case info.caller.Printer:
		perMinute, perHour := orOff(s.PerMinute, printerPerMinute), orOff(s.PerHour, printerPerHour)
		rate, ok = s.limiter.Take(
			claim("printer:"+actor.APIKey, perMinute, perHour),
			claim("printers:"+actor.Tenant, printersPerUsers*s.TenantPerMinute, 0))
	default:
		rate, ok = s.limiter.Take(
			claim("user:"+actor.ID(), s.PerMinute, s.PerHour),
			claim("tenant:"+actor.Tenant, s.TenantPerMinute, 0))
	}
	if !rate.Off {
		h := w.Header()
		// Header.Set would spell the names X-Ratelimit.
		h["X-RateLimit-Limit"] = []string{strconv.Itoa(rate.Limit)}
		h["X-RateLimit-Remaining"] = []string{strconv.Itoa(rate.Remaining)}
		h["X-RateLimit-Reset"] = []string{strconv.FormatInt(rate.Reset.Add(time.Second-1).Unix(), 10)}
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

// admit returns a function that returns a 429 if a bucket of the client's address is empty. The function takes no
// token, because only requests without valid credentials count for the address.
func (s *Server) admit(info *requestInfo) func() error {
	return func() error {
		rate, ok := s.limiter.Peek(s.addressClaim(info))
		if ok {
			return nil
		}
		return tooMany(rate)
	}
}

func (s *Server) tooMany(rate limit.Rate) *Error {
	s.Metrics.limited()
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

// page returns the handler with the limit of pages, for a path that is not part of the API.
func (s *Server) page(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if limited := s.limitPage(infoOf(r)); limited != nil {
			limited.write(w, infoOf(r).id)
			return
		}
		handler(w, r)
	}
}

func (s *Server) limitPage(info *requestInfo) *Error {
	if s.PerMinute <= 0 {
		return nil
	}
	if rate, ok := s.limiter.Take(claim("page:"+info.address, pagesPerMinute, 0)); !ok {
		return s.tooMany(rate)
	}
	return nil
}
