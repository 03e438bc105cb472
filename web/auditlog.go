package web

import (
	"slices"
	"strings"
	"time"

	"spoolwright/auth/audit"
)

// auditPage is the page of the audit log.
type auditPage struct {
	listing
	Items []auditEntry
}

// auditEntry is an entry of the audit log, as the API returns it.
type auditEntry struct {
	Action     string
	At         *time.Time `json:"created_at"`
	ActorKind  string     `json:"actor_kind"`
	ActorName  string     `json:"actor_name"`
	Address    string
	ObjectKind string `json:"object_kind"`
	ObjectName string `json:"object_name"`
	Fields     []string
}

// actionName returns an action in words.
func actionName(action string) string {
	switch action {
	case "sign_in.failed":
		return "Sign-in failed"
	case "sign_in.more_failed":
		return "More sign-ins failed"
	case "sign_in", "sign_out":
		return strings.Replace(label(action), " ", "-", 1)
	case "user.otp_failed":
		return "Wrong code"
	case "user.more_otp_failed":
		return "More wrong codes"
	case "session.reused":
		return "Old token used again"
	}
	if what, ok := strings.CutPrefix(action, "user.otp_"); ok {
		return "Second factor " + what
	}
	return label(strings.ReplaceAll(strings.Replace(action, "api_key", "API key", 1), ".", " "))
}

// What returns what was done, in words.
func (e auditEntry) What() string { return actionName(e.Action) }

// Object returns what was changed, unless the actor is the same.
func (e auditEntry) Object() string {
	switch {
	case e.ObjectName != "" && (e.ObjectKind != "user" || e.ObjectName != e.ActorName):
		return e.ObjectName
	case strings.HasPrefix(e.Action, "data."):
		return label(strings.ReplaceAll(e.ObjectKind, "-", " "))
	}
	return ""
}

// Changed returns the fields that changed, in words.
func (e auditEntry) Changed() string {
	var all []string
	for _, field := range e.Fields {
		all = append(all, strings.ReplaceAll(field, "_", " "))
	}
	return strings.Join(all, ", ")
}

// Who returns who did it.
func (e auditEntry) Who() string {
	switch {
	case e.ActorName != "" && e.ActorKind == "api_key":
		return e.ActorName + " (API key)"
	case e.ActorName != "":
		return e.ActorName
	}
	return label(e.ActorKind)
}

var auditFilters = []filter{{"person", "actor_id", "Person", []word{{"", "Anybody"}}},
	{"action", "action", "What", []word{{"", "Anything"}}},
	{"from", "created_from", "", nil}, {"to", "created_to", "", nil}}

// showAuditLog shows the audit log, the newest entries first.
func showAuditLog(v *visit) error {
	p := &auditPage{}
	filters := slices.Clone(auditFilters)
	var people, keys found[struct{ ID, Name string }]
	err := v.fetch(get("/api/v1/users?limit=100&sort_by=name&sort_order=asc", &people),
		get("/api/v1/api-keys?limit=100&sort_by=name&sort_order=asc", &keys))
	if err != nil {
		return err
	}
	offered := map[string][]option{}
	for _, person := range people.Items {
		offered["person"] = append(offered["person"], option{person.ID, person.Name})
	}
	for _, key := range keys.Items {
		offered["person"] = append(offered["person"], option{key.ID, v.t("%s (API key)", key.Name)})
	}
	for _, action := range audit.Action("").Enum() {
		offered["action"] = append(offered["action"], option{action, actionName(action)})
	}
	l, query := v.listing("/settings/audit", entryNoun, filters, []listOrder{{"", "", "created_at", "desc"}})
	l.data = offered
	p.listing = l
	err = v.fetch(read{path: "/api/v1/audit-log", query: query, into: p})
	if err = p.refused(err); err != nil {
		return err
	}
	return v.show(200, "audit", "Log · Settings", p)
}
