package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Roles for accounts other than the owner of the tables. None of them can log in; grant one to each
// account that can.
const (
	RoleOwner   = "ledgerfeed_owner"   // migrates
	RoleService = "ledgerfeed_service" // serves
	RoleWriter  = "ledgerfeed_writer"  // appends
	RoleAuditor = "ledgerfeed_auditor" // verifies
)

//go:embed roles.sql
var rolesSQL string

//go:embed grants.sql
var grantsSQL string

// Grants returns two SQL scripts. An administrator runs roles, which creates the roles. The owner
// of the tables runs grants, which gives the roles their privileges. Both apply to the database and
// the schema in which they run.
func Grants() (roles, grants string) { return rolesSQL, grantsSQL }

// Tables returns the names of the tables in the schema, without the partitions of other tables.
func Tables() []string {
	_, list, _ := strings.Cut(grantsSQL, "\nREVOKE ALL ON\n")
	list, _, _ = strings.Cut(list, " FROM ")
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// Unreadable returns the tables that the account in url may not read. There are such tables between
// a migration that adds one and ApplyGrants. It leaves out tables that do not exist.
func Unreadable(ctx context.Context, url string) (tables []string, err error) {
	err = look(ctx, url, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			SELECT coalesce(array_agg(name ORDER BY name) FILTER (WHERE NOT has_table_privilege(to_regclass(name), 'SELECT')), '{}')
			  FROM unnest($1::text[]) name`, Tables()).Scan(&tables)
	})
	if err != nil {
		return nil, fmt.Errorf("read the privileges: %w", err)
	}
	return tables, nil
}

// RolesError says that the roles do not exist and that this account cannot create them.
type RolesError struct{ err error }

func (e *RolesError) Error() string {
	return fmt.Sprintf("the roles %s, %s, %s and %s do not exist, and this account of PostgreSQL may not create roles: "+
		"an administrator runs what ledgerfeed migrate --grants roles prints (%v)", RoleOwner, RoleService, RoleWriter, RoleAuditor, e.err)
}

// Unwrap returns the database's error.
func (e *RolesError) Unwrap() error { return e.err }

// ApplyGrants creates the missing roles and gives every role exactly its privileges in the database
// at url, in one transaction. The error is a *RolesError if roles are missing and the account may
// not create them.
func ApplyGrants(ctx context.Context, url string) (err error) {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = pg.InLimitedTx(ctx, conn, lockTimeout, func(tx pgx.Tx) error {
		var there int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM pg_roles WHERE rolname = ANY ($1)`, []string{RoleOwner, RoleService, RoleWriter, RoleAuditor}).Scan(&there); err != nil {
			return fmt.Errorf("look for the roles: %w", err)
		}
		if there < 4 {
			if _, err := tx.Exec(ctx, rolesSQL); pg.Forbidden(err) {
				return &RolesError{err}
			} else if err != nil {
				return fmt.Errorf("make the roles: %w", err)
			}
		}
		if _, err := tx.Exec(ctx, grantsSQL); err != nil {
			return fmt.Errorf("give the roles their rights: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	return nil
}
