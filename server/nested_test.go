package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spoolwright/server"
	"spoolwright/value"
)

// Box has nested lists, which a POST may contain.
type Box struct {
	Label   value.Optional[string] `json:"label" rule:"required"`
	Pieces  []Piece                `json:"pieces"`
	Stamps  []Stamp                `json:"stamps"`
	Printed []Stamp                `json:"printed" rule:"readOnly"`
}

// Check rejects two pieces with the same name.
func (b *Box) Check(problems *server.Problems) {
	if len(b.Pieces) == 2 && b.Pieces[0].Name.Or("") == b.Pieces[1].Name.Or("") && !b.Pieces[0].Name.IsNull() {
		problems.Add("pieces[1].name", "must be different")
	}
}

// Piece is an entry of a Box.
type Piece struct {
	ID    value.UUID             `json:"id" rule:"readOnly,notNull"`
	Name  value.Optional[string] `json:"name" rule:"required"`
	Count value.Optional[int64]  `json:"count" rule:"minimum=1,maximum=9"`
	Color value.Optional[string] `json:"color"`
}

// Check rejects more than one white piece.
func (p *Piece) Check(problems *server.Problems) {
	if p.Color.Or("") == "white" && p.Count.Or(0) > 1 {
		problems.Add("count", "must be 1")
	}
}

// Stamp is an entry of a Box.
type Stamp struct {
	At value.Optional[value.Date] `json:"at"`
}

const boxFields = `
## server_test.Box
| label | The label. | x |
| pieces | The pieces. | |
| stamps | The stamps. | |
| printed | The old stamps. | |

## server_test.Piece
| id | The id. | 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41 |
| name | The name. | wheel |
| count | How many. | 2 |
| color | The color. | red |

## server_test.Stamp
| at | The day. | 2024-01-15 |
`

var boxTag = &server.Tag{Name: "boxes", Description: "For tests.", Fields: boxFields}

func boxes(t *testing.T) *server.Server {
	t.Helper()
	show := server.Handle(func(_ context.Context, r *server.Request[Box]) (server.OK[Echo], error) {
		var all []string
		for _, p := range r.In.Pieces {
			all = append(all, fmt.Sprintf("%s %d %v", p.Name.Or("-"), p.Count.Or(0), p.Color.Set))
		}
		for _, s := range r.In.Stamps {
			all = append(all, fmt.Sprint(s.At.Or("-")))
		}
		return server.Encode(Echo{fmt.Sprintf("%s: %s (%d)", r.In.Label.Or("-"), strings.Join(all, ", "),
			len(r.In.Printed))})
	})
	echoDoc := func(id string) *server.Doc { return &server.Doc{ID: id, Tag: boxTag, Summary: id} }
	return newServer(t, func(c *server.Config) {
		c.Routes = append(c.Routes,
			server.Op("POST /api/v1/boxes", server.Write, show, echoDoc("createBox")),
			server.Op("PATCH /api/v1/boxes/{id}", server.Write, show, echoDoc("changeBox")),
			server.Op("POST /api/v1/boxes/{id}/close", server.Write, show.OptionalBody(), echoDoc("closeBox")))
	})
}

func entries(n int, entry string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
}

func TestNestedLists(t *testing.T) {
	t.Parallel()
	s := boxes(t)
	for _, c := range []struct{ name, method, body, want string }{
		{"no lists", "POST", `{"label":"x"}`, "x:  (0)"},
		{"null and empty", "POST", `{"label":"x","pieces":null,"stamps":[ ]}`, "x:  (0)"},
		{"two lists", "POST", `{"pieces" : [ {"name":"a"} , {"count":3,"name":"b","color":null} ],"label":"x",
			"stamps":[{"at":"2024-01-15"},{}]}`, "x: a 0 false, b 3 true, 2024-01-15, - (0)"},
		{"brackets in texts", "POST", `{"label":"x","pieces":[{"name":"]},{\"["}]}`, `x: ]},{"[ 0 false (0)`},
		{"read-only fields and lists", "POST",
			`{"label":"x","printed":[{"at":1}],"pieces":[{"name":"a","id":[{"id":1}]}]}`, "x: a 0 false (0)"},
		{"500 entries", "POST", `{"label":"x","stamps":` + entries(500, `{}`) + `}`,
			"x: " + strings.TrimSuffix(strings.Repeat("-, ", 500), ", ") + " (0)"},
		{"a PATCH ignores lists", "PATCH",
			`{"label":"x","pieces":[{"name":1,"surprise":2}, 5],"stamps":"none","printed":1}`, "x:  (0)"},
		{"a PATCH ignores long lists", "PATCH", `{"stamps":` + entries(501, `{}`) + `}`, "-:  (0)"},
	} {
		path := "/api/v1/boxes"
		if c.method == "PATCH" {
			path += "/" + someID
		}
		r := send(t, s, c.method, path, c.body)
		var e Echo
		if got := text(t, r); json.Unmarshal([]byte(got), &e) != nil || r.StatusCode != 200 || e.Got != c.want {
			t.Errorf("%s: %d %.300s, want %.300s", c.name, r.StatusCode, got, c.want)
		}
	}

	for _, c := range []struct {
		name, body string
		fields     []string
	}{
		{"not a list", `{"label":"x","pieces":{},"stamps":"x"}`, []string{"pieces", "stamps"}},
		{"not objects", `{"label":"x","stamps":[{}, 1, null, [], "x", {}]}`,
			[]string{"stamps[1]", "stamps[2]", "stamps[3]", "stamps[4]"}},
		{"problems of several entries", `{"pieces":[{"name":"a"},{"count":0},{"name":"","count":10,"color":1}],
			"stamps":[{"at":"x"}]}`, []string{"label", "pieces[1].name", "pieces[1].count", "pieces[2].name",
			"pieces[2].count", "pieces[2].color", "stamps[0].at"}},
		{"unknown fields", `{"label":"x","pieces":[{"name":"a","Count":1}],"stamps":[{"at":null,"pieces":[]}]}`,
			[]string{"pieces[0].Count", "stamps[0].pieces"}},
		{"null for a required field", `{"label":"x","pieces":[{"name":null}]}`, []string{"pieces[0].name"}},
		{"a rule over two fields", `{"label":"x","pieces":[{"name":"a"},{"name":"b","color":"white","count":2}]}`,
			[]string{"pieces[1].count"}},
		{"a rule over two entries", `{"label":"x","pieces":[{"name":"a"},{"name":"a"}]}`, []string{"pieces[1].name"}},
		{"501 entries", `{"label":"x","stamps":` + entries(501, `{"at":0}`) + `}`, []string{"stamps"}},
	} {
		r := send(t, s, "POST", "/api/v1/boxes", c.body)
		got := wantError(t, r, 422, "VALIDATION_ERROR").fields()
		slices.Sort(c.fields)
		if !slices.Equal(got, c.fields) {
			t.Errorf("%s: the problems are with %q, want %q", c.name, got, c.fields)
		}
	}
	for _, body := range []string{`{"label":"x","pieces":[{"name":"a","name":"b"}]}`, `{"label":"x","stamps":[{}}`,
		`{"label":"x","stamps":[{},]}`, `{"label":"x","stamps":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) +
			`}`} {
		wantError(t, send(t, s, "POST", "/api/v1/boxes", body), 400, "MALFORMED_JSON")
	}
	// The error names at most 100 unknown fields, in all lists together.
	r := send(t, s, "POST", "/api/v1/boxes", `{"label":"x","stamps":`+entries(500, `{"a":1}`)+`,"b":1}`)
	if n := len(wantError(t, r, 422, "VALIDATION_ERROR").Errors); n != 100 {
		t.Errorf("%d unknown fields are named, want 100", n)
	}
}

func TestOptionalBody(t *testing.T) {
	t.Parallel()
	s := boxes(t)
	path := "/api/v1/boxes/" + someID + "/close"
	for _, c := range []struct{ body, media, want string }{
		{"", "", "-:  (0)"},
		{"", "text/plain", "-:  (0)"},
		{"", "application/json", "-:  (0)"},
		{`{"label":"x"}`, "application/json", "x:  (0)"},
	} {
		r := send(t, s, "POST", path, c.body, "Content-Type", c.media)
		var e Echo
		if got := text(t, r); json.Unmarshal([]byte(got), &e) != nil || r.StatusCode != 200 || e.Got != c.want {
			t.Errorf("%q as %q: %d %s, want %s", c.body, c.media, r.StatusCode, got, c.want)
		}
	}
	// A body that is not empty is like any other body.
	if got := wantError(t, send(t, s, "POST", path, `{}`), 422, "VALIDATION_ERROR").fields(); !slices.Equal(got,
		[]string{"label"}) {
		t.Errorf("{}: the problems are with %q", got)
	}
	wantError(t, send(t, s, "POST", path, " "), 400, "MALFORMED_JSON")
	wantError(t, send(t, s, "POST", path, `{"label":"x"}`, "Content-Type", "text/plain"), 415,
		"UNSUPPORTED_MEDIA_TYPE")
	wantError(t, send(t, s, "POST", path, strings.Repeat(" ", 1<<20+1)), 413, "PAYLOAD_TOO_LARGE")
}
