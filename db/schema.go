package db

import (
	"context"
	"embed"
	"io/fs"
	"slices"

	"spoolwright/db/schema"
)

// Definition is schema.Definition.
type Definition = schema.Definition

// The migrations create tables; functions and triggers are in definitions.
//
//go:embed migrations/*.sql
var migrations embed.FS

//go:embed *.sql
var functions embed.FS

// ownDefinitions are the functions of this package, which the features' definitions may call.
var ownDefinitions = Definitions("db", functions,
	"id", "raise_code", "counts", "hidden", "directory", "queue", "statistics", "samples")

// Definitions is schema.Definitions.
func Definitions(pkg string, files fs.FS, order ...string) []Definition {
	return schema.Definitions(pkg, files, order...)
}

// Schema returns the schema of a program with the definitions of its features.
func Schema(features []Definition) schema.Schema {
	return schema.Schema{Migrations: migrations, Definitions: slices.Concat(ownDefinitions, features), Role: appRole}
}

// Migrate migrates the database at ownerURL to this program's schema. The login of memberURL, if it is another login,
// becomes a member of spoolwright_app if the owner may grant the membership.
func Migrate(ctx context.Context, ownerURL, memberURL string, features []Definition) (schema.Applied, error) {
	return Schema(features).Migrate(ctx, ownerURL, memberURL)
}
