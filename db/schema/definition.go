package schema

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Definition is repeatable SQL: the functions of one package that must change together. After the migrations, Migrate
// runs each definition that the database lacks or has in a lower version. CONTRIBUTING.md describes how to change a
// definition.
type Definition struct {
	Name    string // package and file, such as "inventory/use"
	Version int    // 1 or more; a higher version replaces a lower one, never the reverse
	SQL     string // statements that may run any number of times: create or replace function, revoke, grant
}

// Definitions returns the definitions of a package: its files *.sql in the given order. Each must come after the files
// whose functions it calls. An entry of the order is the name of a file without .sql, followed by its version if that
// is not 1, such as "report 2". Definitions panics if a file is missing in the order, or an entry has no file.
func Definitions(pkg string, files fs.FS, order ...string) []Definition {
	missing, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err)
	}
	var all []Definition
	for _, text := range order {
		name, number, _ := strings.Cut(text, " ")
		version, err := strconv.Atoi(cmp.Or(number, "1"))
		sql, err2 := fs.ReadFile(files, name+".sql")
		if err := errors.Join(err, err2); err != nil {
			panic(fmt.Sprintf("the definition %s of %s: %v", text, pkg, err))
		}
		missing = slices.DeleteFunc(missing, func(file string) bool { return file == name+".sql" })
		all = append(all, Definition{Name: pkg + "/" + name, Version: version, SQL: string(sql)})
	}
	if len(missing) > 0 {
		panic(fmt.Sprintf("the definitions of %s lack %s", pkg, strings.Join(missing, ", ")))
	}
	return all
}

// Hash returns the SHA-256 of the definition's SQL in hexadecimal digits.
func (d Definition) Hash() string { return hash(d.SQL) }

func hash(sql string) string {
	sum := sha256.Sum256([]byte(sql))
	return hex.EncodeToString(sum[:])
}

// pendingDefinitions returns the definitions that must be installed. A definition is not pending if the database has a
// higher version: a newer program installed that version, and it works for this program too. A definition is pending
// if the database has the same version with another text, so that a developer who edits a definition need not raise
// its version each time.
func pendingDefinitions(ctx context.Context, q querier, all []Definition) ([]Definition, error) {
	type row struct {
		version int
		hash    string
	}
	rows, err := q.Query(ctx, `select name, version, sha256 from schema_definitions`)
	if err != nil {
		return nil, err
	}
	installed := map[string]row{}
	var name string
	var r row
	_, err = pgx.ForEachRow(rows, []any{&name, &r.version, &r.hash}, func() error {
		installed[name] = r
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(d Definition) bool {
		r := installed[d.Name]
		return r.version > d.Version || r == row{d.Version, d.Hash()}
	}), nil
}

// installDefinitions installs the pending definitions in one transaction, and returns their number.
func installDefinitions(ctx context.Context, conn *pgx.Conn, all []Definition) (installed int, err error) {
	pending, err := pendingDefinitions(ctx, conn, all)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockMigrations(ctx, tx); err != nil {
			return err
		}
		// Another instance may have installed the definitions before this instance acquired the lock.
		if pending, err = pendingDefinitions(ctx, tx, all); err != nil {
			return err
		}
		for _, d := range pending {
			if err := execScript(ctx, tx, d.SQL); err != nil {
				return fmt.Errorf("definition %s: %w", d.Name, err)
			}
			_, err := tx.Exec(ctx, `
				insert into schema_definitions (name, version, sha256) values ($1, $2, $3)
				on conflict (name) do update
				set version = excluded.version, sha256 = excluded.sha256, applied_at = now()`,
				d.Name, d.Version, d.Hash())
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(pending), nil
}
