package server

import (
	"net/http"
	"strconv"
	"time"

	"spoolwright/server/limit"
)

// Limits of an API key of a printer, which reports every few seconds. They apply if they are higher than the limits of
// users, and are off where those are. The printers of a tenant do not use up the limit of its users.
const (
	printerPerMinute = 300
	printerPerHour   = 3600
	printersPerUsers = 3 // the limit of all printers of a tenant, as a multiple of that of its users
)

// limit takes one token from the buckets of the caller and the caller's tenant, or from those of the client's address,
// and sets the X-RateLimit headers. It returns a 429 if there is no token left.
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

// orOff returns the higher limit, or 0 if the limit of users is turned off.
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

// admit returns a function that returns a 429 if the bucket of the client's address is empty. It takes no token: only
// requests without valid credentials count for the address.
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

// pagesPerMinute limits the requests of an address for paths outside /api/v1. The rate limits of the API turn it off
// too, for those who test. /healthz and /readyz have no limit: a load balancer that got a 429 would stop using the
// instance, and they cost next to nothing.
const pagesPerMinute = 600

// page limits a handler that is not part of the API.
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
