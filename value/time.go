package value

import (
	"regexp"
	"strings"
	"time"

	"spoolwright/value/language"
)

// Timestamp is a point in time, truncated to microseconds.
type Timestamp struct{ time.Time }

// Moment is a point in time in a query: a timestamp or, if date is not empty, the beginning of the day in the time
// zone of the tenant.
type Moment struct {
	time.Time
	date Date
}

// IsDay reports whether the moment is the beginning of a day.
func (m Moment) IsDay() bool { return m.date != "" }

// Before reports whether m is certainly before n: the times of a day and of a timestamp depend on the time zone.
func (m Moment) Before(n Moment) bool {
	if m.IsDay() != n.IsDay() {
		return false
	}
	return m.date < n.date || m.Time.Before(n.Time)
}

// MarshalJSON encodes the zero time as null.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.Time.MarshalJSON()
}

// Date is a calendar day, YYYY-MM-DD.
type Date string

// timestampForm is stricter than time.Parse. Like RFC 3339, it accepts the letters T and Z in either case.
var timestampForm = regexp.MustCompile(
	`^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?$`)

// firstYear is the first year of timestamps and dates. An earlier one is a mistake: 0202 instead of 2020.
const firstYear = 1900

func ParseTimestamp(v any) (Timestamp, string) {
	const wrong language.Text = "must be an RFC 3339 timestamp such as 2024-01-15T10:00:00Z"
	s, ok := v.(string)
	if !ok || !timestampForm.MatchString(s) {
		return Timestamp{}, problem(wrong)
	}
	s = strings.ToUpper(s)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		t = t.UTC().Truncate(time.Microsecond)
		if t.Year() < firstYear || t.Year() > 9999 {
			return Timestamp{}, problem("must be in the years 1900 to 9999")
		}
		return Timestamp{t}, ""
	}
	return Timestamp{}, problem(wrong)
}

func ParseMoment(v any) (Moment, string) {
	if day, wrong := ParseDate(v); wrong == "" {
		return Moment{date: day}, ""
	}
	t, wrong := ParseTimestamp(v)
	if wrong != "" {
		wrong = problem("%s or a date such as 2024-01-15", wrong)
	}
	return Moment{Time: t.Time}, wrong
}

func ParseDate(v any) (Date, string) {
	s, _ := v.(string)
	t, err := time.Parse(time.DateOnly, s)
	switch {
	case err != nil:
		return "", problem("must be a date such as 2024-01-15")
	case t.Year() < firstYear:
		return "", problem("must be in the years 1900 to 9999")
	}
	return Date(s), ""
}
