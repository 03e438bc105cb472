package server

import _ "embed"

// apiDescription opens the OpenAPI document: what holds for every operation.
//
//go:embed docs/about.md
var apiDescription string

const idempotencyDescription = "Makes the request safe to repeat. For 24 hours, the same key with the same body returns the first answer " +
	"and changes nothing. With another body or path it is a 409 `IDEMPOTENCY_CONFLICT`; an invalid body is a 400 or 422, also with a used key. " +
	"Keys belong to the user. Only successful answers are stored."
