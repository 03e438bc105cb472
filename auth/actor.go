package auth

import (
	_ "embed"
	"slices"

	"spoolwright/auth/audit"
	"spoolwright/db"
)

//go:embed actor.sql
var actorSQL string

//go:embed factor.sql
var factorSQL string

// Definitions are the SQL functions of users and API keys. Other packages call the function actor_name in their
// statements.
var Definitions = slices.Concat([]db.Definition{{Name: "auth/actor", Version: 1, SQL: actorSQL},
	{Name: "auth/factor", Version: 1, SQL: factorSQL}}, audit.Definitions)

// HiddenBy selects the columns hidden_by and hidden_by_name of a table with the column hidden_by.
const HiddenBy = `hidden_by, case when hidden_by is not null then actor_name(hidden_by) end as hidden_by_name`
