//go:build unix

package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const superuser = "postgres"

// createCluster creates the cluster if it does not exist. It runs initdb in the staging folder and renames the
// result, so that an interrupted initdb leaves no partial cluster.
func (s *Server) createCluster(ctx context.Context) error {
	if err := removeAll(s.staging); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.cluster, "PG_VERSION")); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if left, err := os.ReadDir(s.cluster); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty and not a PostgreSQL cluster: move it away, or set DATA_DIR to another folder",
			s.cluster)
	}
	sec, err := makeSecrets(s.secretsFile, s.options.secrets)
	if err != nil {
		return err
	}
	if err := os.Mkdir(s.staging, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(s.staging)
	// An initdb whose program was killed removes its folder before it ends, so each has a folder of its own.
	password, data := filepath.Join(s.staging, "password"), filepath.Join(s.staging, "data-"+rand.Text())
	if err := os.WriteFile(password, []byte(sec.Superuser+"\n"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(s.chown(password), s.chown(s.staging)); err != nil {
		return err
	}
	args := []string{"-D", data, "--username=" + superuser, "--auth=scram-sha-256", "--pwfile=" + password,
		"--encoding=UTF8", "--data-checksums", "--no-instructions", "--locale=C"}
	if s.options.Throwaway {
		args = append(args, "--no-sync")
	}
	// Text sorts by bytes. If the system has the locale C.UTF-8, the character type is UTF-8, so that upper and lower
	// convert non-ASCII letters.
	out, err := run(s.command(ctx, s.tools.initdb, append(args, "--lc-ctype=C.UTF-8")...))
	if err != nil && strings.Contains(out, "invalid locale name") {
		out, err = run(s.command(ctx, s.tools.initdb, args...))
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(out))
	}
	if err := os.Rename(data, s.cluster); err != nil {
		return err
	}
	if err := s.checkCluster(); err != nil { // PostgreSQL's account could have replaced data
		return errors.Join(err, os.Remove(s.cluster))
	}
	return syncDir(filepath.Dir(s.cluster))
}

// settings returns PostgreSQL's settings for the command line. The command line overrides postgresql.conf, so that
// each start uses the settings of this version of the program.
func (s *Server) settings() []string {
	sockets := `"` + strings.ReplaceAll(s.sockets, `"`, `""`) + `"`
	list := []string{
		"listen_addresses=",
		"unix_socket_directories=" + sockets,
		"unix_socket_permissions=0700",
		"port=" + port,
		"password_encryption=scram-sha-256",
		"cluster_name=" + Database,
		"max_connections=100",
		"max_wal_size=1GB",
		"jit=off",
		"timezone=UTC",
		"log_timezone=UTC",
		"logging_collector=off",
		"log_destination=stderr",
		"log_min_messages=warning",
		"log_checkpoints=off",
	}
	if s.options.Throwaway {
		list = append(list, "shared_buffers=32MB", "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0")
	} else {
		list = append(list, "shared_buffers=128MB", "fsync=on", "synchronous_commit=on", "full_page_writes=on")
	}
	for _, k := range slices.Sorted(maps.Keys(s.options.Settings)) {
		list = append(list, k+"="+s.options.Settings[k])
	}
	return list
}

// bootstrapMark is the comment of the database. It is set last: a database with this comment is complete.
const bootstrapMark = "spoolwright bootstrap 1"

// bootstrap checks that the PostgreSQL behind the socket serves this cluster, and creates the database and missing
// roles. If create is false, it returns an error if anything is missing.
func (s *Server) bootstrap(ctx context.Context, create bool) error {
	conn, err := pgx.Connect(ctx, s.url(superuser, s.secrets.Superuser, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	var data, comment string
	var exists bool
	for recovering := true; recovering; {
		err = conn.QueryRow(ctx, `
			select current_setting('data_directory'), pg_is_in_recovery(),
				d.oid is not null, coalesce(shobj_description(d.oid, 'pg_database'), '')
			from (values (1)) one left join pg_database d on d.datname = $1`, Database,
		).Scan(&data, &recovering, &exists, &comment)
		if err != nil {
			return err
		}
		if recovering && !create {
			return errors.New("it is in archive recovery")
		}
		if recovering { // PostgreSQL accepts writes a moment after the control file shows the end of recovery
			sleep(ctx, 10*time.Millisecond)
		}
	}
	if !sameFile(data, s.cluster) {
		return fmt.Errorf("the PostgreSQL that listens in %s serves the cluster %s, not %s", s.sockets, data,
			s.cluster)
	}
	// A cluster with the ICU of one PostgreSQL does not work with another one of the same version without ICU.
	if _, err := conn.Exec(ctx, `select lower('' collate "und-x-icu")`); err != nil {
		return fmt.Errorf("PostgreSQL has no ICU, which the database needs: install another one of this version (%s): %w",
			installHint, err)
	}
	if comment == bootstrapMark {
		return nil
	}
	if !create {
		return errors.New("its roles and database are not created yet")
	}
	steps := []string{rolesSQL(s.secrets)}
	if !exists {
		steps = append(steps, "create database "+Database+" owner "+OwnerRole)
	}
	steps = append(steps, databaseSQL)
	for _, sql := range steps {
		if err := conn.PgConn().Exec(ctx, sql).Close(); err != nil {
			return err
		}
	}
	return nil
}

// rolesSQL returns the statements that create the roles, or reset their attributes and passwords. Sent as one simple
// query, the statements are one transaction. The passwords need no escaping: rand.Text returns letters and digits.
func rolesSQL(sec secrets) string {
	var b strings.Builder
	role := func(name, attributes string) {
		fmt.Fprintf(&b, "do $$ begin\n"+
			"if not exists (select from pg_roles where rolname = '%[1]s') then create role %[1]s; end if;\n"+
			"end $$;\n"+
			"alter role %[1]s nosuperuser nocreatedb nocreaterole noreplication nobypassrls %[2]s;\n", name,
			attributes)
	}
	role(AppRole, "nologin")
	role(OwnerRole, "login password '"+sec.Owner+"'")
	role(LoginRole, "login password '"+sec.Login+"'")
	fmt.Fprintf(&b, "grant %s to %s, %s;\n", AppRole, LoginRole, OwnerRole)
	return b.String()
}

// databaseSQL completes the bootstrap of the database. Errors are logged tersely, because their details contain values
// of rows, which must not be in the log.
const databaseSQL = `
	revoke all on database postgres, template1 from public;
	revoke all on database ` + Database + ` from public;
	grant connect on database ` + Database + ` to public;
	alter database ` + Database + ` set log_error_verbosity = 'terse';
	comment on database ` + Database + ` is '` + bootstrapMark + `'`

// sameFile reports whether both paths exist and name the same file.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
