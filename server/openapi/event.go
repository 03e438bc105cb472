package openapi

import (
	"encoding/json"
	"strings"

	"spoolwright/server"
)

// event describes the request that the service sends for an event.
func (d *document) event(e server.Event) object {
	name := d.eventSchema(e)
	example := object{{"type", e.Type}, {"timestamp", eventTime}, {"data", d.example(e.Data, false)}}
	op := object{
		{"operationId", "on" + strings.ReplaceAll(strings.TrimSuffix(name, "_event"), "_", "")},
		{"tags", []string{e.Tag.Name}}, {"summary", e.Summary}, {"description", e.Description},
	}
	return append(op, receiver(object{{"schema", ref("schemas", name)}, {"example", example}})...)
}

// callbacks describes the requests that the receiver of a new webhook gets.
func (d *document) callbacks(events []server.Event) object {
	var all []object
	types := object{}
	for _, e := range events {
		all = append(all, ref("schemas", d.eventSchema(e)))
		types.add(e.Type, "#/components/schemas/"+d.eventSchema(e))
	}
	op := append(object{{"summary", "Receive an event"}}, receiver(object{{"schema", object{
		{"oneOf", all}, {"discriminator", object{{"propertyName", "type"}, {"mapping", types}}}}}})...)
	return object{{"event", object{{"{$request.body#/url}", object{{"post", op}}}}}}
}

var eventTime = json.RawMessage(`"2024-01-15T10:00:00.123456Z"`)

// eventSchema returns the name of the schema of an event's body.
func (d *document) eventSchema(e server.Event) string {
	data := d.response(e.Data)
	name := strings.ReplaceAll(e.Type, ".", "_")
	name = strings.ToUpper(name[:1]) + name[1:] + "_event"
	if d.begin(name, e.Data, "event") {
		d.put(name, object{
			{"type", object{{"type", "string"}, {"description", "The type of the event."}, {"const", e.Type}}},
			{"timestamp", object{{"type", "string"}, {"format", "date-time"},
				{"description", "When the event happened."},
				{"examples", []json.RawMessage{eventTime}}}},
			{"data", ref("schemas", data)},
		}, []string{"type", "timestamp", "data"})
	}
	return name
}

// receiver returns the members of an operation that the receiver of a webhook implements. Body is the media type
// object of the operation's request body.
func receiver(body object) object {
	var headers []object
	for _, h := range eventHeaders {
		headers = append(headers, ref("parameters", h.name))
	}
	return object{
		{"security", []object{}},
		{"parameters", headers},
		{"requestBody", object{{"required", true}, {"content", object{{"application/json", body}}}}},
		{"responses", object{
			{"204", object{{"description", "The receiver has the event. Any status from 200 to 299 means that."}}},
			{"410", object{{"description", "The receiver wants no more events: the service disables the webhook."}}},
			{"default", object{{"description", "The service tries again later."}}},
		}},
	}
}

// eventHeaders describes the headers of the requests to receivers, as component parameters.
var eventHeaders = object{
	{"WebhookID", eventHeader("webhook-id", "The id of the event, the same in every try.", "msg_"+exampleID)},
	{"WebhookTimestamp", eventHeader("webhook-timestamp", "When this try was sent, in Unix seconds.", "1705312800")},
	{"WebhookSignature", eventHeader("webhook-signature",
		"One or two signatures, separated by a space: `v1,` and the "+
			"Base64 of the HMAC-SHA256 of `webhook-id.webhook-timestamp.body`.",
		"v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=")},
}

func eventHeader(name, description, example string) object {
	return object{{"name", name}, {"in", "header"}, {"required", true}, {"description", description},
		{"schema", object{{"type", "string"}}}, {"example", example}}
}
