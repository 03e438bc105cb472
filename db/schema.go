package db

import (
	"context"
	"embed"
	"slices"

	"spoolwright/db/schema"
)

// Definition is schema.Definition.
type Definition = schema.Definition

var (
	// The migrations are append-only: a released file is never edited. They create tables; functions and triggers are
	// in definitions.
	//
	//go:embed migrations/*.sql
	migrations embed.FS

	//go:embed id.sql
	idSQL string
	//go:embed refuse.sql
	refuseSQL string
	//go:embed counts.sql
	countsSQL string
	//go:embed hidden.sql
	hiddenSQL string
	//go:embed directory.sql
	directorySQL string
	//go:embed queue.sql
	queueSQL string
	//go:embed statistics.sql
	statisticsSQL string
	//go:embed samples.sql
	samplesSQL string
)

// ownDefinitions are the functions of this package, which the features' definitions may call.
var ownDefinitions = []Definition{
	{Name: "db/id", Version: 1, SQL: idSQL},
	{Name: "db/refuse", Version: 1, SQL: refuseSQL},
	{Name: "db/counts", Version: 1, SQL: countsSQL},
	{Name: "db/hidden", Version: 1, SQL: hiddenSQL},
	{Name: "db/directory", Version: 1, SQL: directorySQL},
	{Name: "db/queue", Version: 1, SQL: queueSQL},
	{Name: "db/statistics", Version: 1, SQL: statisticsSQL},
	{Name: "db/samples", Version: 1, SQL: samplesSQL},
}

// schemaOf returns the schema of a program with the definitions of its features.
func schemaOf(features []Definition) schema.Schema {
	return schema.Schema{Migrations: migrations, Definitions: slices.Concat(ownDefinitions, features), Role: appRole}
}

// Migrate migrates the database at ownerURL to this program's schema. The login of memberURL, if it is another login,
// becomes a member of spoolwright_app if the owner may grant the membership.
func Migrate(ctx context.Context, ownerURL, memberURL string, features []Definition) (schema.Applied, error) {
	return schemaOf(features).Migrate(ctx, ownerURL, memberURL)
}
