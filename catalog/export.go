package catalog

import (
	"context"
	"io"

	"spoolwright/db"
	"spoolwright/server"
)

// Export writes all products with their bills of materials, oldest first; see server.Export.
func Export(ctx context.Context, d *db.DB, w io.Writer, format string) (int, error) {
	return server.Export[Product](ctx, d, w, format, func(createdAt, id string) *db.Stmt {
		return db.SQL(selectProducts+` and (p.created_at, p.id) > ($1::text::timestamptz, $2::uuid) order by p.created_at, p.id limit 200`, createdAt, id)
	})
}
