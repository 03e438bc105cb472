package transfer

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"spoolwright/server"
	"spoolwright/value/language"
)

// codeNames are the fields whose values are codes, which people compare but do not calculate with.
var codeNames = []string{"reference", "shop_order_id", "line_id", "sku", "lot_number", "article_number", "external_id",
	"number", "filament_number", "product_number", "spool_number"}

// isCode reports whether the values of a field are codes.
func isCode(f *server.Field) bool {
	return slices.Contains(codeNames, f.Name[strings.LastIndexByte(f.Name, '.')+1:])
}

// codes has the properties of the texts in a column of codes.
type codes struct {
	padded     int  // the length of the longest number with a zero at its beginning
	whole      bool // whether there is a number without a mark
	long       int  // how many numbers have more than the 15 digits that a spreadsheet keeps
	exact      bool // whether one of these does not end like a rounded number
	other      bool // whether there is a text that is not a date
	impossible bool // whether a text has the form of a date but is no date
}

var (
	exponent = regexp.MustCompile(`^[0-9](?:[.,][0-9]+)?[Ee]\+[0-9]+$|^[0-9][.,][0-9]+[Ee]-[0-9]+$`)
	fraction = regexp.MustCompile(`^([0-9]+)[.,]0+$`)
	noValue  = regexp.MustCompile(`^#{2,}$|^#(?:NAME\?|VALUE!|REF!|NUM!|NULL!|N/A|DIV/0!)$`)
	roundEnd = regexp.MustCompile(`^[0-9]{15}0+$`)
	// Spreadsheet programs write the day and the month without the year, and the name of the month not in capitals.
	dayOfMonth = regexp.MustCompile(`^(?:[0-9]{1,2}[-. /]+(\pL+)|(\pL+)[-. /]+[0-9]{1,2})\.?$`)
)

// longMonths are short names of months with four letters, which months does not have.
var longMonths = strings.Fields("janv févr mars märz june juni july juli août sept")

// isShortDate reports whether a text is a date as spreadsheet programs write it for a code such as 1-2 or MAR1.
func isShortDate(text string) bool {
	m := dayOfMonth.FindStringSubmatch(text)
	if m == nil || strings.IndexFunc(m[1]+m[2], unicode.IsLower) < 0 {
		return false
	}
	month := strings.ToLower(m[1] + m[2])
	return months[month] != "" || slices.Contains(longMonths, month)
}

// see records a text of the column.
func (c *codes) see(text string) {
	dmy, mdy := readDate(text)
	isDate := dmy+mdy != ""
	c.other = c.other || !isDate && !isShortDate(text)
	c.impossible = c.impossible || !isDate && (yearFirst.MatchString(text) || yearLast.MatchString(text))
	if !digits.MatchString(text) {
		return
	}
	c.whole = true
	if text[0] == '0' {
		c.padded = max(c.padded, len(text))
	}
	if len(text) > 15 {
		c.long++
		c.exact = c.exact || !roundEnd.MatchString(text)
	}
}

// damage describes how a spreadsheet may have changed a code of the column, or returns "". A row with the id of its
// resource comes from an export, whose codes can have any length and can begin with the year.
func (c *codes) damage(text string, hasID bool) string {
	problem := ""
	dmy, mdy := readDate(text)
	switch {
	case exponent.MatchString(text):
		return rounded(text)
	case noValue.MatchString(text):
		problem = language.Sprintf("is what a spreadsheet shows instead of a code")
	case fraction.MatchString(text) && !c.whole:
		whole := fraction.FindStringSubmatch(text)[1]
		problem = language.Sprintf("can be the code %s with a fraction added by a spreadsheet, or the code %s", whole,
			text)
	case !hasID && digits.MatchString(text) && text[0] != '0' && len(text) < c.padded:
		problem = language.Sprintf("may have lost leading zeros in a spreadsheet, because another code has %d digits",
			c.padded)
	case roundEnd.MatchString(text) && c.long > 1 && !c.exact:
		problem = language.Sprintf("may have lost its last digits in a spreadsheet, which keeps 15")
	case isShortDate(text), dmy+mdy != "" && c.other && !c.impossible && !(hasID && yearFirst.MatchString(text)):
		problem = language.Sprintf("may be a code that a spreadsheet changed to a date")
	default:
		return ""
	}
	return remedy(problem, text)
}

// Rounded returns the problem with a text that a spreadsheet may have made of a longer number, or "".
func Rounded(text string) string {
	if exponent.MatchString(text) {
		return rounded(text)
	}
	return ""
}

// rounded returns the problem with a number that a spreadsheet has written with an exponent.
func rounded(text string) string {
	return remedy(language.Sprintf("may be a longer number that a spreadsheet rounded"), text)
}

func remedy(problem, text string) string {
	return language.Sprintf("%s: in the spreadsheet, format the column as text, enter the code again, and save the "+
		"file; "+
		"the value is %q", problem, shorten(text))
}
