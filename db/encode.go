package db

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"spoolwright/value"
)

// appendRow appends a result row as a JSON object. The names of the columns are the keys, and their SQL types
// determine the JSON types. It accepts both wire formats, because some exec modes of pgx, which poolers may need,
// return text.
func appendRow(to []byte, columns []pgconn.FieldDescription, values [][]byte) ([]byte, error) {
	to = append(to, '{')
	for i, column := range columns {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, '"')
		to = append(to, column.Name...)
		to = append(to, '"', ':')
		var err error
		if to, err = appendValue(to, column, values[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
	}
	return append(to, '}'), nil
}

// appendSparse is appendRow for a statement with Stmt.Sparse.
func appendSparse(to []byte, columns []pgconn.FieldDescription, values [][]byte) ([]byte, error) {
	outer := "" // the prefix of the columns of the current object
	to = append(to, '{')
	for i, column := range columns {
		if values[i] == nil {
			continue
		}
		prefix, name := "", column.Name
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			prefix, name = name[:dot+1], name[dot+1:]
		}
		for !strings.HasPrefix(prefix, outer) { // the current object ends
			to = append(to, '}')
			outer = outer[:strings.LastIndexByte(outer[:len(outer)-1], '.')+1]
		}
		comma := to[len(to)-1] != '{'
		for len(outer) < len(prefix) {
			inner := prefix[len(outer):]
			inner = inner[:strings.IndexByte(inner, '.')]
			if comma {
				to = append(to, ',')
			}
			comma, outer = false, outer+inner+"."
			to = append(append(append(to, '"'), inner...), '"', ':', '{')
		}
		if comma {
			to = append(to, ',')
		}
		to = append(append(append(to, '"'), name...), '"', ':')
		var err error
		if to, err = appendValue(to, column, values[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
	}
	for range strings.Count(outer, ".") {
		to = append(to, '}')
	}
	return append(to, '}'), nil
}

func appendValue(to []byte, column pgconn.FieldDescription, text []byte) ([]byte, error) {
	if text == nil {
		return append(to, "null"...), nil
	}
	binaryFormat := column.Format == pgx.BinaryFormatCode
	switch column.DataTypeOID {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.UnknownOID:
		return value.AppendString(to, text), nil
	case pgtype.UUIDOID:
		to = append(to, '"')
		if binaryFormat {
			to = value.AppendID(to, text)
		} else {
			to = append(to, text...)
		}
		return append(to, '"'), nil
	case pgtype.NumericOID:
		if binaryFormat {
			return appendNumeric(to, text)
		}
		if c := text[len(text)-1]; c < '0' || c > '9' {
			return nil, errNotFinite
		}
		return append(to, trimZeros(string(text))...), nil
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		if !binaryFormat {
			return append(to, text...), nil
		}
		switch len(text) {
		case 2:
			return strconv.AppendInt(to, int64(int16(binary.BigEndian.Uint16(text))), 10), nil
		case 4:
			return strconv.AppendInt(to, int64(int32(binary.BigEndian.Uint32(text))), 10), nil
		default:
			return strconv.AppendInt(to, int64(binary.BigEndian.Uint64(text)), 10), nil
		}
	case pgtype.BoolOID:
		return strconv.AppendBool(to, text[0] == 1 || text[0] == 't'), nil
	case pgtype.TimestamptzOID:
		t, err := parseTimestamp(text, binaryFormat)
		if err != nil {
			return nil, err
		}
		return appendTime(to, t), nil
	case pgtype.DateOID:
		t, err := parseDate(text, binaryFormat)
		if err != nil {
			return nil, err
		}
		return t.AppendFormat(to, `"2006-01-02"`), nil
	case pgtype.JSONOID:
		return appendCompact(to, text), nil
	case pgtype.JSONBOID:
		if binaryFormat {
			text = text[1:]
		}
		return appendCompact(to, text), nil
	}
	return nil, fmt.Errorf("no JSON encoding for the SQL type %d", column.DataTypeOID)
}

var errNotFinite = errors.New("not a finite number")

// appendCompact appends valid JSON without the white space between its tokens, which PostgreSQL adds.
func appendCompact(to, json []byte) []byte {
	inString := false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			to = append(to, c)
			i++
		case !inString && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		to = append(to, json[i])
	}
	return to
}

func parseDate(value []byte, binaryFormat bool) (time.Time, error) {
	if !binaryFormat {
		return time.Parse(time.DateOnly, string(value))
	}
	t := time.Date(2000, 1, 1+int(int32(binary.BigEndian.Uint32(value))), 0, 0, 0, 0, time.UTC)
	if t.Year() < 1 || t.Year() > 9999 {
		return t, errors.New("date outside of the years 1 to 9999")
	}
	return t, nil
}

// appendTime appends t in the format "2006-01-02T15:04:05.999999Z". It is four times as fast as AppendFormat.
func appendTime(to []byte, t time.Time) []byte {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	two := func(n int, end byte) { to = append(to, byte('0'+n/10), byte('0'+n%10), end) }
	to = append(to, '"', byte('0'+year/1000%10), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-')
	two(int(month), '-')
	two(day, 'T')
	two(hour, ':')
	two(minute, ':')
	two(second, '.')
	if micros := t.Nanosecond() / 1000; micros == 0 {
		to = to[:len(to)-1]
	} else {
		for unit := 100_000; micros > 0; unit /= 10 {
			to = append(to, byte('0'+micros/unit))
			micros %= unit
		}
	}
	return append(to, 'Z', '"')
}

func parseTimestamp(value []byte, binaryFormat bool) (time.Time, error) {
	if binaryFormat {
		const unixOf2000 = 946_684_800
		us := int64(binary.BigEndian.Uint64(value))
		if us == math.MaxInt64 || us == math.MinInt64 {
			return time.Time{}, errors.New("infinite timestamp")
		}
		return time.Unix(unixOf2000+us/1_000_000, us%1_000_000*1000).UTC(), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999Z07", "2006-01-02 15:04:05.999999Z07:00"} {
		if t, err := time.Parse(layout, string(value)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid timestamp %q", value)
}

// appendNumeric appends a binary numeric of PostgreSQL as an exact JSON number without trailing zeros. The wire
// format is the digit count, the weight of the first digit, the sign, the display scale, and the digits, in base
// 10,000.
func appendNumeric(to, b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("short numeric")
	}
	count := int(int16(binary.BigEndian.Uint16(b)))
	weight := int(int16(binary.BigEndian.Uint16(b[2:])))
	sign := binary.BigEndian.Uint16(b[4:])
	if sign != 0 && sign != 0x4000 {
		return nil, errNotFinite
	}
	if len(b) != 8+2*count {
		return nil, fmt.Errorf("numeric of %d digits in %d bytes", count, len(b))
	}
	if count == 0 {
		return append(to, '0'), nil
	}
	group := func(i int) int {
		if i < 0 || i >= count {
			return 0
		}
		return int(binary.BigEndian.Uint16(b[8+2*i:]))
	}
	if sign == 0x4000 {
		to = append(to, '-')
	}
	if weight < 0 {
		to = append(to, '0')
	}
	for i := 0; i <= weight; i++ {
		if i == 0 {
			to = strconv.AppendInt(to, int64(group(i)), 10)
		} else {
			to = appendGroup(to, group(i))
		}
	}
	if count > weight+1 {
		to = append(to, '.')
		for i := weight + 1; i < count; i++ {
			to = appendGroup(to, group(i))
		}
		end := len(to)
		for to[end-1] == '0' {
			end--
		}
		if to[end-1] == '.' {
			end--
		}
		to = to[:end]
	}
	return to, nil
}

func appendGroup(to []byte, g int) []byte {
	return append(to, byte('0'+g/1000), byte('0'+g/100%10), byte('0'+g/10%10), byte('0'+g%10))
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
