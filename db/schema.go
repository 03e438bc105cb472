package db

import (
	"context"
	"embed"
	"slices"

	"spoolwright/db/schema"
)

// Definition and Applied are those of package schema.
type (
	Definition = schema.Definition
	Applied    = schema.Applied
)

var (
	// The migrations are append-only: a released file is never edited. They hold tables; functions and triggers are
	// definitions.
	//
	//go:embed migrations/*.sql
	migrations embed.FS

	//go:embed home.sql
	homeSQL string
	//go:embed id.sql
	idSQL string
	//go:embed bind.sql
	bindTenantSQL string
	//go:embed counts.sql
	countsSQL string
	//go:embed directory.sql
	directorySQL string
	//go:embed queue.sql
	queueSQL string
)

// ownDefinitions are the functions of this package, which the features' definitions may call.
var ownDefinitions = []Definition{
	{Name: "db/id", Version: 1, SQL: idSQL},
	{Name: "db/bind", Version: 1, SQL: bindTenantSQL},
	{Name: "db/counts", Version: 1, SQL: countsSQL},
	{Name: "db/directory", Version: 1, SQL: directorySQL},
	{Name: "db/queue", Version: 1, SQL: queueSQL},
	{Name: "db/home", Version: 1, SQL: homeSQL},
}

// Schema returns the schema of a program with the definitions of its features.
func Schema(features []Definition) schema.Schema {
	return schema.Schema{Migrations: migrations, Definitions: slices.Concat(ownDefinitions, features), Role: appRole}
}

// Migrate brings the database at ownerURL up to this program's Schema. The login of memberURL, if it is another one,
// becomes a member of spoolwright_app where the owner may grant that.
func Migrate(ctx context.Context, ownerURL, memberURL string, features []Definition) (Applied, error) {
	return Schema(features).Migrate(ctx, ownerURL, memberURL)
}
