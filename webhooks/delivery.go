package webhooks

import (
	"context"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// Enum returns all states.
func (DeliveryStatus) Enum() []string { return []string{"pending", "delivered", "failed"} }

// Delivery is the delivery of an event to a webhook, with the outcome of the last try.
type Delivery struct {
	ID             value.UUID      `json:"id" rule:"notNull"`
	EventID        string          `json:"event_id" rule:"notNull"`
	Type           string          `json:"type" rule:"notNull"`
	Status         DeliveryStatus  `json:"status" rule:"notNull"`
	Tries          int64           `json:"tries" rule:"notNull"`
	NextTryAt      value.Timestamp `json:"next_try_at"`
	LastTryAt      value.Timestamp `json:"last_try_at"`
	DurationMS     int64           `json:"duration_ms"`
	ResponseStatus int64           `json:"response_status"`
	Response       string          `json:"response"`
	Error          string          `json:"error"`
	CreatedAt      value.Timestamp `json:"created_at" rule:"notNull"`
}

// DeliveryDetails is a delivery with its body.
type DeliveryDetails struct {
	Delivery
	Body string `json:"body" rule:"notNull"`
}

// Test is the data of an event of the type webhook.test.
type Test struct {
	WebhookID value.UUID `json:"webhook_id" rule:"notNull"`
	Message   string     `json:"message" rule:"notNull"`
}

// deliveryColumns selects the fields of a Delivery.
const deliveryColumns = `id, event_id, type, status, tries, next_try_at, last_try_at, duration_ms, response_status,
	response, error, created_at`

var listDeliveriesDoc = &server.Doc{
	ID: "listWebhookDeliveries", Tag: tag, Summary: "List the deliveries of a webhook",
	Description: "Lists the events for the webhook, newest first, with the outcome of the last try. They are " +
		"deleted after 30 days.",
}

// DeliveryQuery are the parameters of the list of deliveries.
type DeliveryQuery struct {
	Status      value.Optional[value.Set[DeliveryStatus]] `query:"status"`
	Event       value.Optional[string]                    `query:"event"`
	CreatedFrom value.Optional[value.Moment]              `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]              `query:"created_to"`
}

func (q DeliveryQuery) list(webhook string) *server.List {
	l := server.NewList("webhook_deliveries", deliveryColumns, "", "")
	l.Where("webhook_id = ?", webhook)
	l.WhereOneOf("status", q.Status)
	l.WhereEqual("type", q.Event)
	l.Between("created_at", q.CreatedFrom, q.CreatedTo)
	return l
}

// Statements that read a delivery by its id compare its webhook_id with "is not distinct from", which cannot use the
// index of the list of deliveries. With "=", PostgreSQL could choose this index and read all deliveries of the
// webhook.

var getDeliveryDoc = &server.Doc{
	ID: "getWebhookDelivery", Tag: tag, Summary: "Get a delivery",
	Description: "Returns a delivery with the body of its requests.",
}

func (s *Service) getDelivery(ctx context.Context, r *server.Request[struct{}]) (server.OK[DeliveryDetails], error) {
	delivery := db.SQL(`
		select `+deliveryColumns+`, body from webhook_deliveries d
		where d.id = $1 and d.webhook_id is not distinct from $2 and exists (select from webhooks w where w.id = $2)`,
		r.ID("delivery_id"), r.ID("id"))
	return server.One(delivery, s.DB.Read(ctx, delivery))
}

var testDoc = &server.Doc{
	ID: "testWebhook", Tag: tag, Summary: "Send a test event",
	Description: "Sends an event of the type `webhook.test` to the webhook and returns its delivery, which is " +
		"pending: get it again to see the outcome.",
	Errors: []*server.Error{errDisabled},
}

func (s *Service) test(ctx context.Context, r *server.Request[struct{}]) (server.OK[Delivery], error) {
	id := r.ID("id")
	var disabled bool
	webhook := readDisabled(id, &disabled)
	delivery := db.SQL(`
		insert into webhook_deliveries (id, webhook_id, event_id, type, body, next_try_at)
		select uuid_v7(), w.id, 'msg_' || uuid_v7(), $2,
			event_body($2, json_build_object('webhook_id', w.id, 'message', $3::text)), now()
		from webhooks w where w.id = $1 and w.disabled_at is null
		returning `+deliveryColumns, id, testEvent, testMessage)
	return pending(webhook, delivery, &disabled, s.DB.Write(ctx, webhook, delivery, wake(id)))
}

// readDisabled returns a statement that reads whether a webhook is disabled. It returns no row if the webhook does not
// exist.
func readDisabled(id string, disabled *bool) *db.Stmt {
	return db.SQL(`select disabled_at is not null from webhooks where id = $1`, id).Into(disabled)
}

// pending returns the delivery that a write made pending. err is the error of the write.
func pending(webhook, delivery *db.Stmt, disabled *bool, err error) ([]byte, error) {
	if err = server.Found(webhook, err); err == nil && *disabled {
		err = errDisabled
	}
	return server.One(delivery, err)
}

var redeliverDoc = &server.Doc{
	ID: "redeliverWebhookDelivery", Tag: tag, Summary: "Redeliver an event",
	Description: "Sends the event again at once, even if it was delivered, with the same `webhook-id`. Failed tries " +
		"are repeated as for a new event.",
	Errors: []*server.Error{errDisabled},
}

func (s *Service) redeliver(ctx context.Context, r *server.Request[struct{}]) (server.OK[Delivery], error) {
	id := r.ID("id")
	var disabled bool
	webhook := readDisabled(id, &disabled)
	delivery := db.SQL(`
		update webhook_deliveries set status = 'pending', tries = 0, next_try_at = now()
		where id = $2 and webhook_id is not distinct from $1
			and exists (select from webhooks w where w.id = $1 and w.disabled_at is null)
		returning `+deliveryColumns, id, r.ID("delivery_id"))
	return pending(webhook, delivery, &disabled, s.DB.Write(ctx, webhook, delivery, wake(id)))
}
