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

// The roles that others than the owner of the tables have. None can log in; accounts
// that can are given one.
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

// Grants returns the SQL that makes the roles, for an administrator, and the SQL that
// gives them their rights, for the owner of the tables. Both work on the database and the
// schema that they are run in.
func Grants() (roles, grants string) { return rolesSQL, grantsSQL }

// Tables are the tables of the schema, without the partitions of other tables.
func Tables() []string {
	_, list, _ := strings.Cut(grantsSQL, "\nREVOKE ALL ON\n")
	list, _, _ = strings.Cut(list, " FROM ")
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// Unreadable are the tables of the database at url that its account may not read, which
// is the case between a migration that adds a table and ApplyGrants. Tables that do not
// exist are not among them.
func Unreadable(ctx context.Context, url string) (tables []string, err error) {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, `
		SELECT coalesce(array_agg(name ORDER BY name) FILTER (WHERE NOT has_table_privilege(to_regclass(name), 'SELECT')), '{}')
		  FROM unnest($1::text[]) name`, Tables()).Scan(&tables)
	if err != nil {
		return nil, fmt.Errorf("read the privileges: %w", err)
	}
	return tables, nil
}

// RolesError says that the roles do not exist and that this account cannot make them.
type RolesError struct{ err error }

func (e *RolesError) Error() string {
	return fmt.Sprintf("the roles %s, %s, %s and %s do not exist, and this account of PostgreSQL may not create roles: "+
		"an administrator runs what ledgerfeed migrate --grants roles prints (%v)", RoleOwner, RoleService, RoleWriter, RoleAuditor, e.err)
}

// Unwrap returns the database's error.
func (e *RolesError) Unwrap() error { return e.err }

// ApplyGrants makes the roles that do not exist, and gives all of them exactly their
// rights in the database at url, in one transaction. Errors: *RolesError.
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
