package start

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Request is a request of the sample data. Load has replaced the references in it.
type Request struct {
	Method, Path string
	Media        string // of the body; "" is JSON
	Body         []byte
	At           time.Time // when the created resource is to have been created; zero means now
}

// template is a request in the order in which Load sends them. The method is POST unless a request names another
// method. A path or body can contain the ref of an earlier request in braces; Load replaces it with the id of the
// created resource. {REF.LIST.N} is the id of the entry N of a list of the resource. A body can contain a time as
// hours from now, such as {hours -2}, and a date as days from today. Days is when the resource was created, in days
// from today.
type template struct {
	Ref, Method, Path string
	Days              float64
	Body              json.RawMessage
}

//go:embed farm.json
var farm []byte

var (
	relative  = regexp.MustCompile(`\{(hours|days) (-?[0-9.]+)\}`)
	reference = regexp.MustCompile(`\{[a-z][a-z0-9.-]*\}`)
)

// daysFrom returns the time that many days from now.
func daysFrom(now time.Time, days float64) time.Time {
	return now.Add(time.Duration(days * float64(24*time.Hour))).Truncate(time.Second)
}

// moment returns the time or the date for a match of relative.
func moment(now time.Time, relation string) string {
	found := relative.FindStringSubmatch(relation)
	n, _ := strconv.ParseFloat(found[2], 64) // the pattern allows only digits
	if found[1] == "days" {
		return daysFrom(now, n).Format(time.DateOnly)
	}
	return daysFrom(now, n/24).Format(time.RFC3339)
}

// Load creates the sample data through the API: a farm with sixty days of history. It calls send for each request in
// turn; send returns the body of the response.
func Load(send func(Request) (answer []byte, err error)) error {
	var present []template
	if err := json.Unmarshal(farm, &present); err != nil {
		return err
	}
	// The history comes before what is printed and ordered at present, and after what it uses.
	first := slices.IndexFunc(present, func(t template) bool { return t.Path == "/api/v1/orders" })
	now := time.Now().UTC()
	ids := map[string]string{} // by reference
	for _, t := range slices.Concat(present[:first], history(), present[first:]) {
		var missing string
		resolve := func(s string) string {
			s = relative.ReplaceAllStringFunc(s, func(m string) string { return moment(now, m) })
			return reference.ReplaceAllStringFunc(s, func(m string) string {
				id, ok := ids[m]
				if !ok {
					missing = m
				}
				return id
			})
		}
		r := Request{Method: cmp.Or(t.Method, http.MethodPost), Path: resolve(t.Path)}
		if t.Body != nil {
			r.Body = []byte(resolve(string(t.Body)))
		}
		if t.Days != 0 {
			r.At = daysFrom(now, t.Days)
		}
		if missing != "" {
			return fmt.Errorf("start: no resource has the reference %s", missing)
		}
		answer, err := send(r)
		if err != nil {
			return err
		}
		if t.Ref == "" {
			continue
		}
		var created struct {
			ID               string
			Items, Materials []struct{ ID string }
		}
		if err := json.Unmarshal(answer, &created); err != nil {
			return err
		}
		ids["{"+t.Ref+"}"] = created.ID
		for i, item := range created.Items {
			ids[fmt.Sprintf("{%s.items.%d}", t.Ref, i)] = item.ID
		}
		for i, material := range created.Materials {
			ids[fmt.Sprintf("{%s.materials.%d}", t.Ref, i)] = material.ID
		}
	}
	return nil
}

func idOf(answer []byte) (string, error) {
	var created struct{ ID string }
	err := json.Unmarshal(answer, &created)
	return created.ID, err
}
