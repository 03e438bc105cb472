package server

import _ "embed"

// apiDescription opens the OpenAPI document: what holds for every operation.
//
//go:embed docs/about.md
var apiDescription string

const idempotencyDescription = "Makes the request safe to repeat: for 24 hours the same key with the same body returns the first answer and changes nothing; " +
	"with another body or path it is a 409 `IDEMPOTENCY_CONFLICT`. Keys belong to the user. Only successes are kept."
