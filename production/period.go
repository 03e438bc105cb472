package production

import (
	"context"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Period are the query parameters of a report: its first and its last day, in the time zone of the tenant.
type Period struct {
	From value.Optional[value.Date] `query:"from"`
	To   value.Optional[value.Date] `query:"to"`
}

// DefaultDays is the number of days of a period if the request has no from, as in report_period.
const DefaultDays = 30

const maxDays = 3660 // the maximum length of a period

// Check checks that the period is neither empty nor too long. It does not know the current day in the tenant's time
// zone. So a period without to may begin tomorrow; the period is then that one day.
func (p *Period) Check(problems *server.Problems) {
	parse := func(d value.Optional[value.Date], otherwise time.Time) time.Time {
		if d.IsNull() {
			return otherwise
		}
		t, _ := time.Parse(time.DateOnly, string(*d.Value)) // server has validated it
		return t
	}
	to := parse(p.To, time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1))
	from := parse(p.From, to.AddDate(0, 0, 1-DefaultDays))
	switch {
	case from.After(to):
		problems.Add("from", "must not be after to")
	case to.Sub(from) >= maxDays*24*time.Hour:
		problems.Add("from", "must be at most %d days before to", maxDays-1)
	case from.Year() < 1: // the default of from
		problems.Add("to", "must be at least 0001-01-%d without from", DefaultDays)
	case to.Year() > 9998:
		problems.Add("to", "must be before the year 9999")
	}
}

// Args returns the arguments $1 to $3 of a statement that reads report_period($1, $2, $3).
func (p Period) Args(ctx context.Context) []any {
	return []any{db.ActorOf(ctx).Tenant, p.From.Arg(), p.To.Arg()}
}
