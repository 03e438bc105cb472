package server

import (
	"context"

	"spoolwright/db"
)

// Remove returns two statements that remove the row with the id from a table. Locked locks the row, which waits for
// transactions that are about to refer to the row, and returns no row if there is nothing to remove. Removed sees the
// changes of these transactions: it hides the row if other rows refer to it, and otherwise deletes it, and updates the
// count.
func Remove(table, id string) (locked, removed *db.Stmt) {
	return db.SQL(`select id from `+table+` where id = $1 and hidden_at is null for update`, id),
		db.SQL(`select remove_row($1, $2)`, table, id)
}

// Restore restores the hidden row with the id in a table, and returns the result of the statement row, which reads the
// row. If another row has the same name, the restored row violates the unique index, and the error is duplicate with
// the name.
func Restore(
	ctx context.Context, d *db.DB, table, id string, row *db.Stmt, index string, duplicate *Error,
) ([]byte, error) {
	var name string
	locked := db.SQL(`select name from `+table+` where id = $1 for no key update`, id).Into(&name)
	err := d.Write(ctx, locked, Restored(table, id), row)
	if db.Violates(err, index) {
		return nil, duplicate.With(name).On().Because(err)
	}
	return One(row, err)
}

// Restored returns a statement that shows the hidden row with the id in a table again, and counts it.
func Restored(table, id string) *db.Stmt {
	return db.SQL(`
		with restored as (
			update `+table+` set hidden_at = null, updated_at = now() where id = $1 and hidden_at is not null returning id
		)
		select count_rows('`+table+`', 1) from restored`, id)
}
