package openapi_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spoolwright/app"
	"spoolwright/catalog"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/server/openapi"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type object = testkit.JSON

// served returns the document of a service, and the service.
func served(t *testing.T) (*testkit.Document, *testkit.API) {
	t.Helper()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, catalog.Routes, production.Routes(orders.Runs))
	return testkit.ReadDocument(t, api.Anonymous().Get(t, "/openapi.json").Want(200).Body), api
}

// walk visits every object in the document.
func walk(at string, v any, visit func(at string, o object)) {
	switch v := v.(type) {
	case object:
		visit(at, v)
		for name, value := range v {
			walk(at+"/"+name, value, visit)
		}
	case []any:
		for i, value := range v {
			walk(fmt.Sprint(at, "/", i), value, visit)
		}
	}
}

// operations calls visit for each operation of the document, with its route.
func operations(t *testing.T, d *testkit.Document, routes []server.Route,
	visit func(what string, op object, route server.Route),
) {
	t.Helper()
	n := 0
	for path, item := range d.Root["paths"].(object) {
		for method, op := range item.(object) {
			if method == "parameters" {
				continue
			}
			n++
			what := strings.ToUpper(method) + " " + path
			i := slices.IndexFunc(routes, func(r server.Route) bool { return r.Pattern == what })
			if i < 0 {
				t.Errorf("%s is not a route", what)
				continue
			}
			visit(what, op.(object), routes[i])
		}
	}
	if n != len(routes) || n < 20 {
		t.Errorf("%d operations for %d routes", n, len(routes))
	}
}

func TestDocumentIsDeterministic(t *testing.T) {
	t.Parallel()
	d, api := served(t)
	info := d.Root["info"].(object)
	if d.Root["openapi"] != "3.1.0" || info["title"] != "Spoolwright" || info["version"] != "test" {
		t.Errorf("%v, %v", d.Root["openapi"], info)
	}
	testkit.Equal(t, string(openapi.Document(api.Routes, "test")), string(d.Text),
		"two calls of Document return different documents")
}

func TestReferencesHaveTargets(t *testing.T) {
	t.Parallel()
	d, _ := served(t)
	refs := 0
	walk("#", d.Root, func(at string, o object) {
		if _, ok := o["$ref"].(string); ok {
			refs++
			if d.Resolve(o) == nil {
				t.Errorf("%s: %v has no target", at, o["$ref"])
			}
		}
	})
	if refs < 50 {
		t.Errorf("%d references", refs)
	}
}

// Swagger UI sends the example of a parameter unless the visitor removes it. A list would then show nothing.
func TestOptionalParametersHaveNoExamples(t *testing.T) {
	t.Parallel()
	d, _ := served(t)
	checked := 0
	walk("#", d.Root, func(at string, o object) {
		if in, _ := o["in"].(string); o["required"] == false && (in == "query" || in == "header") {
			checked++
			schema, _ := o["schema"].(object)
			for _, holder := range []object{o, schema} {
				for _, key := range []string{"example", "examples"} {
					if holder[key] != nil {
						t.Errorf("%s: the parameter %v has an %s", at, o["name"], key)
					}
				}
			}
		}
	})
	if checked < 200 {
		t.Errorf("%d parameters", checked)
	}
}

// What most clients look for leads.
func TestFirstTags(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	d := testkit.ReadDocument(t, api.Anonymous().Get(t, "/openapi.json").Want(200).Body)
	var names []string
	for _, tag := range d.Root["tags"].([]any)[:5] {
		names = append(names, tag.(object)["name"].(string))
	}
	if want := []string{"spools", "products", "production-runs", "orders", "auth"}; !slices.Equal(names, want) {
		t.Errorf("the first tags are %v, want %v", names, want)
	}
}

// Examples of fields, parameters and bodies match their schemas.
func TestExamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	d, _ := served(t)
	checked := 0
	check := func(schema object, example any, at string) {
		checked++
		testkit.Check(t, d.Match(schema, example, at))
	}
	walk("#", d.Root, func(at string, o object) {
		if schema, ok := o["schema"].(object); ok {
			if example, ok := o["example"]; ok {
				check(schema, example, at+"/example")
			}
			named, _ := o["examples"].(object)
			for name, example := range named {
				check(schema, example.(object)["value"], at+"/examples/"+name)
			}
		}
		if examples, ok := o["examples"].([]any); ok {
			for _, example := range examples {
				check(o, example, at+"/examples")
			}
		}
	})
	if checked < 100 {
		t.Errorf("%d examples", checked)
	}
}

func TestOperationsHaveNamesAndTexts(t *testing.T) {
	t.Parallel()
	d, api := served(t)
	tags := map[any]bool{}
	for _, tag := range d.Root["tags"].([]any) {
		tag := tag.(object)
		if tags[tag["name"]] || tag["description"] == "" {
			t.Errorf("tag %v", tag)
		}
		tags[tag["name"]] = true
	}
	ids := map[string]string{}
	operations(t, d, api.Routes, func(what string, op object, _ server.Route) {
		id, _ := op["operationId"].(string)
		if !regexp.MustCompile(`^[a-z][A-Za-z]+$`).MatchString(id) || ids[id] != "" {
			t.Errorf("%s has the operationId %q, as has %q", what, id, ids[id])
		}
		ids[id] = what
		summary, _ := op["summary"].(string)
		if summary == "" || strings.HasSuffix(summary, ".") || strings.Contains(summary, "\n") {
			t.Errorf("%s has the summary %q", what, summary)
		}
		if got, _ := op["tags"].([]any); len(got) != 1 || !tags[got[0]] {
			t.Errorf("%s has the tags %v", what, op["tags"])
		}
		if description, _ := op["description"].(string); description == "" {
			t.Errorf("%s has no description", what)
		}
	})
}

func TestOperationsNameTheirCredentials(t *testing.T) {
	t.Parallel()
	d, api := served(t)
	bearer, key := object{"bearerAuth": []any{}}, object{"apiKeyAuth": []any{}}
	operations(t, d, api.Routes, func(what string, op object, route server.Route) {
		security, want := d.Root["security"], []any{bearer, key}
		if own, ok := op["security"]; ok {
			security = own
		}
		switch {
		case route.Access == server.Public:
			want = []any{}
		case route.UsersOnly:
			want = []any{bearer}
		case route.KeysOnly:
			want = []any{key}
		}
		if !reflect.DeepEqual(security, any(want)) {
			t.Errorf("%s has the security %v, want %v", what, security, want)
		}
	})
}

func TestOperationsDescribeErrorsAndHeaders(t *testing.T) {
	t.Parallel()
	d, api := served(t)
	operations(t, d, api.Routes, func(what string, op object, route server.Route) {
		responses := op["responses"].(object)
		for _, status := range []string{"401", "403", "429", "500", "503"} {
			withoutLogin := status == "401" && op["operationId"] == "usePasswordLink" // a link that is not valid is a 400
			if responses[status] == nil && !withoutLogin {
				t.Errorf("%s does not describe %s", what, status)
			}
		}
		absent := strings.Contains(route.Path(), "{") || slices.Contains(route.Doc.Errors, server.ErrNotFound)
		testkit.Equal(t, responses["404"] != nil, absent, "%s describes 404", what)
		for status, response := range responses {
			headers, _ := d.Resolve(response.(object))["headers"].(object)
			if headers["X-RateLimit-Remaining"] == nil || headers["X-Request-Id"] == nil ||
				(headers["Location"] != nil) != (status == "201") ||
				(headers["Retry-After"] != nil) != (status == "429" || status == "503") {
				t.Errorf("%s, %s: the headers are %v", what, status, headers)
			}
		}
	})
}

func TestPathParametersAreWildcards(t *testing.T) {
	t.Parallel()
	d, _ := served(t)
	for path, item := range d.Root["paths"].(object) {
		var named []string
		parameters, _ := item.(object)["parameters"].([]any)
		for _, p := range parameters {
			named = append(named, "{"+p.(object)["name"].(string)+"}")
		}
		if got := regexp.MustCompile(`\{[^}]+\}`).FindAllString(path, -1); !slices.Equal(got, named) {
			t.Errorf("%s: the parameters are %v", path, named)
		}
	}
}

// The response of an operation that creates a resource links to the operations on it, with values of their parameters.
func TestCreatedResourcesHaveLinks(t *testing.T) {
	t.Parallel()
	d, api := served(t)
	wildcard := regexp.MustCompile(`\{([^}]+)\}`)
	checked := 0
	operations(t, d, api.Routes, func(what string, op object, route server.Route) {
		want := object{}
		creates := route.Method() == "POST"
		for _, other := range api.Routes {
			rest, below := strings.CutPrefix(other.Path(), route.Path()+"/{")
			if !creates || !below || strings.Contains(rest, "{") {
				continue
			}
			params := object{}
			for _, m := range wildcard.FindAllStringSubmatch(other.Path(), -1) {
				params[m[1]] = "$response.body#/id"
				if strings.Contains(route.Path(), m[0]) {
					params[m[1]] = "$request.path." + m[1]
				}
			}
			want[other.Doc.ID] = object{"operationId": other.Doc.ID, "parameters": params}
			checked++
		}
		for status, response := range op["responses"].(object) {
			response := response.(object)
			got, _ := response["links"].(object)
			if !strings.HasPrefix(status, "2") || len(want) == 0 {
				if got != nil {
					t.Errorf("%s, %s: the links are %v", what, status, got)
				}
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: the links are %v, want %v", what, status, got, want)
			}
			example := response["content"].(object)["application/json"].(object)["example"].(object)
			if id, _ := example["id"].(string); id == "" {
				t.Errorf("%s, %s: the example has no id", what, status)
			}
		}
	})
	if checked < 20 {
		t.Errorf("%d links", checked)
	}
}

// Requests with unknown fields are rejected. Responses and events permit them, because later versions may add fields.
func TestSchemasPermitNewFields(t *testing.T) {
	t.Parallel()
	d, _ := served(t)
	schemas := d.Root["components"].(object)["schemas"].(object)
	closed := map[string]bool{}
	var visit func(at string, o object)
	visit = func(_ string, o object) {
		ref, _ := o["$ref"].(string)
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if schema, _ := schemas[name].(object); schema["type"] == "object" && !closed[name] {
			closed[name] = true
			walk("", schema, visit)
		}
	}
	walk("", d.Root["paths"], func(at string, o object) {
		if strings.Contains(at, "/requestBody/") {
			visit(at, o)
		}
	})
	for name, schema := range schemas {
		schema := schema.(object)
		if got := schema["additionalProperties"] == false; schema["type"] == "object" && got != closed[name] {
			t.Errorf("schema %s: further properties are forbidden: %t", name, got)
		}
	}
	if len(closed) < 20 {
		t.Errorf("%d schemas of requests", len(closed))
	}
}

func TestSchemasDescribeTheirFields(t *testing.T) {
	t.Parallel()
	d, _ := served(t)
	for name, schema := range d.Root["components"].(object)["schemas"].(object) {
		schema := schema.(object)
		properties, _ := schema["properties"].(object)
		if schema["enum"] == nil && schema["oneOf"] == nil && (schema["type"] != "object" || len(properties) == 0) {
			t.Errorf("schema %s: %v", name, schema["type"])
		}
		required, _ := schema["required"].([]any)
		for _, field := range required {
			if properties[field.(string)] == nil {
				t.Errorf("schema %s requires %s, which it does not have", name, field)
			}
		}
		for field, property := range properties {
			if p := property.(object); p["$ref"] == nil && p["description"] == nil {
				t.Errorf("schema %s: %s is not described", name, field)
			}
		}
	}
}

// The tables of field descriptions have no row without a field.
func TestFieldDescriptionsAreUsed(t *testing.T) {
	t.Parallel()
	routes := testkit.New(t, testkit.Options{}, testkit.Features...).Routes
	unused, all := openapi.UnusedFields(routes, app.Events)
	for _, name := range unused {
		t.Errorf("no field %s exists, and a table describes it", name)
	}
	if all < 100 {
		t.Errorf("the tables have %d fields", all)
	}
}
