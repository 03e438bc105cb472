package openapi

import _ "embed"

// apiDescription is the description in the OpenAPI document that concerns all operations.
//
//go:embed about.md
var apiDescription string

// listFields describes the fields of ListQuery.
//
//go:embed fields.md
var listFields string

const idempotencyDescription = "Makes the request safe to repeat. For 24 hours, the same key with the same body " +
	"returns the first response and changes nothing. The same key with another body or path returns a 409 " +
	"`IDEMPOTENCY_CONFLICT`; with an invalid body, it returns a 400 or 422. " +
	"Keys belong to the user. Only successful responses are stored."
