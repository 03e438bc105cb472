package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/db"
	"spoolwright/db/tables"
	"spoolwright/value"
)

// Import creates a tenant from a file. The tenant has the id in the file, and the name in the file unless another name
// is given. Import checks the whole file first and fills the tables in one transaction, so that it imports all or
// nothing. It rejects rows that contradict the ledgers; see BrokenRule.
func Import(ctx context.Context, a accounts.Accounts, o tables.Owner, file io.ReadSeeker, name string,
) (h Header, rows int64, err error) {
	h, _, err = read(file, func(_ Header, _ section, rows io.Reader) error {
		if _, err := io.Copy(io.Discard, rows); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return h, 0, err
	}
	if _, err = file.Seek(0, io.SeekStart); err != nil {
		return h, 0, err
	}
	h.Name = cmp.Or(name, h.Name)
	tenant, ok := value.ParseID(h.Tenant)
	if !ok {
		return h, 0, errDamaged
	}
	err = o.Fill(ctx, tenant, func(t *tables.Tx) error {
		rows, err = fill(ctx, a, t, file, tenant, h.Name)
		return err
	})
	return h, rows, explain(err)
}

// fill fills the tables, checks the file again, and creates the data that a file does not contain.
func fill(ctx context.Context, a accounts.Accounts, t *tables.Tx, file io.Reader, tenant, name string,
) (total int64, err error) {
	if rows, err := t.Exec(`select from tenants`); err != nil {
		return 0, err
	} else if rows > 0 {
		return 0, errExists
	}
	if err := a.ReserveName(ctx, t, tenant, name); err != nil {
		return 0, fmt.Errorf("%w (--name chooses another name)", err)
	}
	var schema int
	if err := t.Row(schemaSQL, &schema); err != nil {
		return 0, err
	}
	known := tablesOf(t.Tables)
	var filled []string
	h, _, err := read(file, func(h Header, s section, r io.Reader) error {
		if h.Schema > schema {
			return newer(h, "the tables of migration %d", h.Schema)
		}
		i := slices.IndexFunc(known, func(t tables.Table) bool { return t.Name == s.Table })
		if i < 0 {
			return newer(h, "the table %q", s.Table)
		}
		values := slices.Clone(s.Columns)
		for n, column := range s.Columns {
			if !slices.Contains(known[i].Columns, column) {
				return newer(h, "the column %q of the table %s", column, s.Table)
			}
			if s.Table == "tenants" && column == "name" {
				values[n] = "'" + strings.ReplaceAll(name, "'", "''") + "'"
			}
			if s.Table == "sign_on_providers" && column == "required" {
				values[n] = "false" // this installation may be unable to decrypt the secret
			}
		}
		n, err := t.ReadRows(tables.Table{Name: s.Table, Columns: s.Columns}, values, r)
		if err == nil && s.Table == "spool_usage" {
			var invalid int
			err = t.Row(`select count(*) from spool_usage u
				where u.tenant_id = nullif(current_setting('app.tenant_id'), '')::uuid and not valid_usage(u)`, &invalid)
			if invalid > 0 {
				err = fmt.Errorf("the database rejects %d rows of the table %s", invalid, s.Table)
			}
		}
		total += n
		filled = append(filled, s.Table)
		return err
	})
	if err != nil {
		return 0, err
	}
	if !slices.Contains(filled, "tenants") {
		return 0, errDamaged
	}
	if h.Parts.Users {
		if err := claimLogins(t); err != nil {
			return 0, err
		}
	}
	for _, sql := range []string{
		`select key_claim(k.hash, k.id) from api_keys k where $1 and k.revoked_at is null`,
		`select key_claim(k.previous_hash, k.id) from api_keys k
			where $1 and k.revoked_at is null and k.previous_until > now()`,
	} {
		if _, err := t.Exec(sql, h.Parts.Keys); err != nil {
			return 0, err
		}
	}
	if _, err := t.Exec(`select shop_claim(s.id) from shops s`); err != nil {
		return 0, err
	}
	if _, err := t.Exec(`select queue_add(array_agg(distinct webhook_id)) from webhook_deliveries
		where status = 'pending' having count(*) > 0`); err != nil {
		return 0, err
	}
	// A change of the stock shortly before the export may not have been checked.
	if _, err := t.Exec(`select queue_add(array_agg(distinct tenant_id), 'stock') from stock_levels
		having count(*) > 0`); err != nil {
		return 0, err
	}
	if _, err := t.Exec(`select queue_add(array_agg(distinct tenant_id), 'watch') from printer_connections
		having count(*) > 0`); err != nil {
		return 0, err
	}
	if _, err := t.Exec(`analyze (skip_locked) ` + strings.Join(filled, ", ")); err != nil {
		return 0, err
	}
	var broken string
	if err := t.Row(BrokenRule, &broken); err != nil {
		return 0, err
	}
	if broken != "" {
		return 0, fmt.Errorf("the rows of the file contradict each other: %s", broken)
	}
	return total, nil
}

// claimLogins enters the users in the login directory.
func claimLogins(t *tables.Tx) error {
	var users []struct{ ID, Email string }
	err := t.Row(`select coalesce(json_agg(json_build_object('ID', id, 'Email', email)), '[]') from users`, &users)
	if err != nil {
		return err
	}
	for _, u := range users {
		_, err := t.Exec(`select login_claim($1, $2)`, auth.EmailKey(u.Email), u.ID)
		if db.Violates(err, "login_directory_pkey") {
			return fmt.Errorf("a user of another tenant has the e-mail %s: change it, or export without --users", u.Email)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errExists = errors.New("the tenant already exists in this installation, and an import replaces nothing; to " +
	"restore the tenant, remove it first with tenant remove")

func newer(h Header, format string, args ...any) error {
	return fmt.Errorf("the file has %s, which this program does not know: use the program that wrote it, %s",
		fmt.Sprintf(format, args...), h.Program)
}

// explain returns a short form of an error of the database.
func explain(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case pg.ConstraintName == "tenants_pkey":
		return errExists
	case pg.ConstraintName == "key_directory_pkey":
		return errors.New("another tenant has an API key of the file: export without --keys")
	case pg.ConstraintName == "shop_directory_pkey":
		return errors.New("another tenant has a connection to a shop of the file: export without --webhooks")
	}
	return err
}
