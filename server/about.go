package server

// apiDescription opens the OpenAPI document: what holds for every operation.
const apiDescription = `A multi-tenant service with which 3D-print farms keep their filament spools, their product catalog and their
production runs.

**Tenants.** Every user belongs to one tenant, which is taken from the access token and never from a request. Another tenant's data
cannot be told from data that does not exist: both are ` + "`404`" + `.

**Tokens.** Log in for an access token (30 minutes by default) and a refresh token (7 days by default); send
` + "`Authorization: Bearer <access_token>`" + ` with everything but login and refresh. Roles: ` + "`viewer`" + ` reads, ` + "`operator`" + ` reads and writes,
` + "`admin`" + ` may do everything. A user who is disabled or gets another role is refused with ` + "`INVALID_TOKEN`" + ` at once; a refresh brings the new role.

**Values.** Ids are UUIDs (version 7, so newer ones sort later). Weights are grams, diameters millimetres. Weights, prices, costs and hours are exact
decimals, rounded to six places when they come in. Timestamps are taken with any offset (none means UTC) and given in UTC with ` + "`Z`" + `. A field that is
not set is ` + "`null`" + `, never missing.

**Bodies.** One JSON object of at most 1 MiB, as ` + "`application/json`" + `. Keys match exactly; an unknown one is a ` + "`422`" + `, because a typo must not lose data.
Fields that only the service sets are accepted and ignored, so that a resource can be fetched, edited and sent back. In a ` + "`PATCH`" + ` an absent field stays as it
is and ` + "`null`" + ` clears it. Nested lists have endpoints of their own: entries in a ` + "`POST`" + ` are refused, in a ` + "`PATCH`" + ` ignored.

**Lists.** ` + "`items`, `total`, `skip`, `limit`" + `; newest first unless ` + "`sort_by` and `sort_order`" + ` say otherwise. Text sorts by code point. Filters combine with AND;
parameters that are not known are ignored.

**Errors.** ` + "`{\"detail\", \"code\"}`" + `; a ` + "`422`" + ` adds ` + "`errors`" + `, a list of ` + "`{\"field\", \"message\"}`" + ` with every problem found.

**Limits.** 100 requests a minute and 1,000 an hour for each user, unless the deployer has set others; both refill continuously. Login, refresh and requests
without a valid token count for the client's address. ` + "`X-RateLimit-*`" + ` describe the tighter limit; a ` + "`429`" + ` says in ` + "`Retry-After`" + ` when to come back. Failed
logins have limits of their own.

**Repeating a request.** Any ` + "`POST`" + ` outside of ` + "`/auth`" + ` takes an ` + "`Idempotency-Key`" + `: sent again within 24 hours with the same body it returns the
first answer (` + "`Idempotency-Replayed: true`" + `) and changes nothing.`

const idempotencyDescription = "Makes the request safe to repeat: for 24 hours the same key with the same body returns the first answer and changes nothing; " +
	"with another body or path it is a 409 IDEMPOTENCY_CONFLICT. Keys belong to the user. Only successes are kept."
