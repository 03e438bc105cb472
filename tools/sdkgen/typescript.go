package sdkgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

func typeScript(a *api) []byte {
	t := &tsGenerator{api: a, generic: map[string]bool{}}
	t.findGeneric()
	w := &writer{}
	w.f("export const VERSION = %s;\n", quote(a.version))
	for _, name := range a.enums {
		w.tsDoc("", a.schemas.of[name].Description)
		w.f("export type %s = %s;\n", name, literals(a.schemas.of[name].Enum, " | "))
	}
	for _, name := range a.outputs {
		t.output(w, name)
	}
	if len(a.events) > 0 {
		var all []string
		for _, e := range a.events {
			all = append(all, t.result(e.schema, "number"))
		}
		w.f("/** An event that a webhook sends. Newer services send other types too: ignore them. */")
		w.f("export type WebhookEvent =\n  | %s;\n", strings.Join(all, "\n  | "))
	}
	inputs := slices.Concat(a.tops, a.inputs)
	slices.Sort(inputs)
	for _, name := range a.schemas.keys {
		if slices.Contains(inputs, name) {
			t.input(w, name)
		}
	}
	for _, g := range a.groups {
		for _, m := range g.methods {
			if len(m.query) > 0 {
				t.query(w, m)
			}
		}
	}
	for _, c := range a.codes {
		w.f("/** The service responded `%s` (status %s). */", c.code, strings.Join(c.statuses, " or "))
		w.f("export class %s extends ApiError {}\n", c.class)
	}
	w.f("const ERRORS: Record<string, typeof ApiError> = {")
	for _, c := range a.codes {
		w.f("  %s: %s,", c.code, c.class)
	}
	w.f("};\n")
	w.f("// Fields whose values are decimals.")
	w.f("const DECIMALS: ReadonlySet<string> = /* @__PURE__ */ new Set([")
	for _, name := range a.decimals {
		w.f("  %s,", quote(name))
	}
	w.f("]);\n")
	for _, g := range a.groups {
		w.tsDoc("", g.doc)
		w.f(`export class %s<M extends DecimalMode = "number"> {
  readonly #client: BaseClient;

  constructor(client: BaseClient) {
    this.#client = client;
  }
`, g.class())
		for _, m := range g.methods {
			t.method(w, m)
		}
		w.f("}\n")
	}
	t.client(w)
	head := &writer{}
	head.f("// %s\n\nimport {", generated)
	for _, name := range tsImports {
		head.f("  %s,", name)
	}
	head.f("} from \"./core.js\";\n")
	return append(head.Bytes(), w.Bytes()...)
}

// client writes the class of a connection, whose fields are the groups of operations.
func (t *tsGenerator) client(w *writer) {
	w.f(`/**
 * A connection to one Spoolwright service.
 *
 * Each property has the operations on one kind of resource: %sfarm.spools.deduct(id, { weight_grams: 45.5 })%s.
 */
export class Client<M extends DecimalMode = "number"> extends BaseClient {`, "`", "`")
	for _, g := range t.groups {
		w.tsDoc("  ", g.doc)
		w.f("  readonly %s: %s<M>;", camel(g.words), g.class())
	}
	w.f(`
  /** Prepares a client for the service at the URL, such as %shttps://farm.example%s. */
  constructor(url: string, options: ClientOptions<M> = {}) {
    super(url, options, { errors: ERRORS, decimals: DECIMALS, version: VERSION });`, "`", "`")
	for _, g := range t.groups {
		w.f("    this.%s = new %s(this);", camel(g.words), g.class())
	}
	w.f(`  }

  /** Logs in and returns a client. The client renews its tokens, and does not keep the password. */
  static async login<M extends DecimalMode = "number">(
    url: string,
    credentials: { email: string; password: string; otp?: string | undefined },
    options: Omit<ClientOptions<M>, "apiKey"> = {},
  ): Promise<Client<M>> {
    const client = new Client<M>(url, options);
    await client.authenticate(credentials);
    return client;
  }
}`)
}

// tsImports are the names of the core that generated code may use. The compiler removes unused imports.
var tsImports = []string{"ApiError", "BaseClient", "cursorPages", "pages", "segment", "type ClientOptions",
	"type Decimal", "type DecimalMode", "type Decimals", "type IfMatch", "type Keyed", "type RequestOptions"}

type tsGenerator struct {
	*api
	generic map[string]bool // schemas of responses with decimals, whose types have a type parameter
}

// findGeneric sets generic.
func (t *tsGenerator) findGeneric() {
	for changed := true; changed; {
		changed = false
		for _, name := range t.outputs {
			properties := t.schemas.of[name].Properties
			for _, key := range properties.keys {
				if !t.generic[name] && t.hasDecimal(key, properties.of[key]) {
					t.generic[name], changed = true, true
				}
			}
		}
	}
}

func (t *tsGenerator) hasDecimal(key string, s *schema) bool {
	s, _ = nullable(s)
	switch {
	case s.Ref != "":
		return t.generic[refName(s.Ref)]
	case s.Items != nil:
		return t.hasDecimal("", s.Items)
	}
	return t.isDecimalField(key, s)
}

func (t *tsGenerator) isDecimalField(key string, s *schema) bool {
	return isDecimal(s) && slices.Contains(t.decimals, key)
}

func (t *tsGenerator) output(w *writer, name string) {
	s := t.schemas.of[name]
	w.tsDoc("", cmp.Or(s.Description, "The type `"+name+"` of the API."))
	parameter := ""
	if t.generic[name] {
		parameter = "<D = number>"
	}
	w.f("export interface %s%s {", name, parameter)
	for _, key := range s.Properties.keys {
		p := s.Properties.of[key]
		w.tsDoc("  ", p.Description)
		w.f("  readonly %s: %s;", tsKey(key), t.typeOf(key, p, false))
	}
	w.f("}\n")
}

func (t *tsGenerator) input(w *writer, name string) {
	s := t.schemas.of[name]
	w.tsDoc("", cmp.Or(s.Description, "The type `"+name+"` of the API, in request bodies."))
	w.f("export interface %s {", t.inputName(name))
	for _, key := range s.Properties.keys {
		p := s.Properties.of[key]
		w.tsDoc("  ", p.Description)
		if slices.Contains(s.Required, key) {
			w.f("  %s: %s;", tsKey(key), t.typeOf(key, p, true))
		} else {
			w.f("  %s?: %s | undefined;", tsKey(key), t.typeOf(key, p, true))
		}
	}
	w.f("}\n")
}

func (m *method) queryName() string { return pascal(splitWords(m.id)) + "Query" }

func (t *tsGenerator) query(w *writer, m *method) {
	w.f("/** Query parameters of `%s.%s`. */", camel(m.group.words), camel(m.words))
	w.f("export interface %s {", m.queryName())
	for _, p := range m.query {
		w.tsDoc("  ", p.Description)
		optional := "?"
		if p.Required {
			optional = ""
		}
		kind := t.typeOf(p.Name, p.Schema, true)
		if p.Schema.Items != nil { // one value, or several
			kind = t.typeOf(p.Name, p.Schema.Items, true) + " | " + kind
		}
		w.f("  %s%s: %s | undefined;", tsKey(p.Name), optional, kind)
	}
	w.f("}\n")
}

func (t *tsGenerator) typeOf(key string, s *schema, input bool) string {
	base, null := nullable(s)
	text := t.base(key, base, input)
	if null && text != "unknown" {
		text += " | null"
	}
	return text
}

func (t *tsGenerator) base(key string, s *schema, input bool) string {
	switch {
	case s.Ref != "":
		name := refName(s.Ref)
		switch {
		case slices.Contains(t.enums, name):
			return name
		case input && (slices.Contains(t.inputs, name) || slices.Contains(t.tops, name)):
			return t.inputName(name)
		case !input && slices.Contains(t.outputs, name):
			return t.result(name, "D")
		}
		return "unknown"
	case s.Const != nil:
		return literals([]any{s.Const}, " | ")
	case len(s.Enum) > 0:
		return literals(s.Enum, " | ")
	case t.isDecimalField(key, s):
		if input {
			return "Decimal"
		}
		return "D"
	case isDecimal(s), slices.Equal(s.Type, types{"integer"}):
		return "number"
	case slices.Equal(s.Type, types{"boolean"}):
		return "boolean"
	case slices.Equal(s.Type, types{"array"}) && s.Items != nil:
		items := t.typeOf(key, s.Items, input)
		if strings.Contains(items, " ") {
			items = "(" + items + ")"
		}
		return "readonly " + items + "[]"
	case s.Format == "date-time" && input:
		return "string | Date"
	case slices.Equal(s.Type, types{"string"}):
		return "string"
	case slices.Equal(s.Type, types{"object"}):
		return "Record<string, unknown>"
	}
	return "unknown"
}

// result returns the type for a schema of responses.
func (t *tsGenerator) result(name, argument string) string {
	if t.generic[name] {
		return name + "<" + argument + ">"
	}
	return name
}

func (t *tsGenerator) method(w *writer, m *method) {
	var params []string
	target := m.path
	for _, p := range m.pathParams {
		name := camel(strings.Split(p.Name, "_"))
		params = append(params, name+": "+t.typeOf(p.Name, p.Schema, true))
		target = strings.Replace(target, "{"+p.Name+"}", "${segment("+name+")}", 1)
	}
	target = "`" + target + "`"
	call := fmt.Sprintf("%s, %s", quote(m.verb), target)
	var parts []string
	switch {
	case m.text == "file":
		params, parts = append(params, "file: Uint8Array"), append(parts, "file")
	case m.text != "":
		params, parts = append(params, m.text+": string | Uint8Array"), append(parts, m.text)
	case m.body != nil && m.optional:
		params, parts = append(params, "input: "+t.inputName(m.bodyName)+" = {}"), append(parts, "body: input")
	case m.body != nil:
		params, parts = append(params, "input: "+t.inputName(m.bodyName)), append(parts, "body: input")
	}
	if len(m.query) > 0 {
		required := slices.ContainsFunc(m.query, func(p parameter) bool { return p.Required })
		param := "query: " + m.queryName()
		if !required {
			param += " = {}"
		}
		params, parts = append(params, param), append(parts, "query: { ...query }")
	}
	options := "RequestOptions"
	if m.keyed {
		options, parts = options+" & Keyed", append(parts, "keyed: true")
	}
	if m.ifMatch {
		options += " & IfMatch"
	}
	result := "void"
	switch {
	case m.textResult:
		result = "string"
	case slices.Contains(t.outputs, m.result):
		result = t.result(m.result, "Decimals[M]")
	case m.result != "":
		result = "unknown"
	}
	write := func(name, doc, result string, params []string) {
		w.tsDoc("  ", doc)
		all := append(slices.Clone(params), "options: "+options+" = {}")
		w.f("  %s(\n    %s,\n  ): Promise<%s> {", name, strings.Join(all, ",\n    "), result)
		w.f("    return this.#client.call(%s, { %s }, options);\n  }\n", call, strings.Join(parts, ", "))
	}
	name := camel(m.words)
	write(name, m.doc, result, params)
	if m.item != "" {
		var params []string
		for _, p := range m.pathParams {
			params = append(params, camel(strings.Split(p.Name, "_"))+": string")
		}
		params = append(params, fmt.Sprintf("query: Omit<%s, \"skip\" | \"limit\" | \"after\"> = {}", m.queryName()),
			"options: RequestOptions = {}")
		function := "pages"
		if m.cursor {
			function = "cursorPages"
		}
		w.tsDoc("  ", iterateDoc(m))
		w.f("  %s(\n    %s,\n  ): AsyncGenerator<%s, void, undefined> {", camel(append([]string{"iterate"},
			withoutList(m.words)...)), strings.Join(params, ",\n    "), t.result(m.item, "Decimals[M]"))
		w.f("    return %s(this.#client, %s, { ...query }, options);\n  }\n", function, target)
	}
}

func (w *writer) tsDoc(indent, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	lines := wrap(strings.ReplaceAll(text, "*/", "*\\/"), width-len(indent)-3)
	if len(lines) == 1 && len(lines[0])+len(indent)+7 <= width {
		w.f("%s/** %s */", indent, lines[0])
		return
	}
	w.f("%s/**", indent)
	for _, line := range lines {
		w.f("%s", strings.TrimRight(indent+" * "+line, " "))
	}
	w.f("%s */", indent)
}

// tsKey returns a property name, quoted if necessary.
func tsKey(s string) string {
	for _, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return quote(s)
		}
	}
	return s
}
