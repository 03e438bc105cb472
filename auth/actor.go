package auth

import (
	"embed"
	"slices"

	"spoolwright/auth/audit"
	"spoolwright/db"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of users and API keys. Other packages call the function actor_name in their
// statements.
var Definitions = slices.Concat(db.Definitions("auth", functions, "actor", "factor"), audit.Definitions)

// HiddenBy selects the columns hidden_by and hidden_by_name of a table with the column hidden_by.
const HiddenBy = `hidden_by, case when hidden_by is not null then actor_name(hidden_by) end as hidden_by_name`
