//go:build full

package migrations_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations/distribute"
)

// TestSchemaCanBeDistributed: every table has its place in a cluster, and nothing of the
// schema is what Citus cannot distribute. It needs no Citus.
func TestSchemaCanBeDistributed(t *testing.T) {
	t.Parallel()
	for _, fault := range layoutFaults(t, testkit.Pool(t)) {
		t.Error(fault)
	}
	seen := map[string]bool{}
	for _, table := range distribute.Layout() {
		if seen[table.Name] {
			t.Errorf("%s has two places", table.Name)
		}
		seen[table.Name] = true
	}
}

// TestLayoutFaults breaks every rule of the layout.
func TestLayoutFaults(t *testing.T) {
	t.Parallel()
	db := testkit.Pool(t)
	if _, err := db.Exec(t.Context(), `
		CREATE TABLE homeless (workspace_id text COLLATE "C" PRIMARY KEY);
		ALTER TABLE invoice ADD UNIQUE (id);
		ALTER TABLE api_key ADD FOREIGN KEY (workspace_id, key_id) REFERENCES webhook (workspace_id, webhook_id);
		ALTER TABLE charge ADD FOREIGN KEY (workspace_id, id) REFERENCES webhook_instance (workspace_id, instance_id);
		ALTER TABLE payment ADD FOREIGN KEY (id, workspace_id) REFERENCES invoice (workspace_id, id);
		ALTER TABLE client ADD COLUMN n bigserial;
		CREATE TRIGGER each BEFORE UPDATE ON client FOR EACH ROW EXECUTE FUNCTION event_log_refuse();
		CREATE FUNCTION subscripts(a text[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
			UPDATE workspace SET name = a[1] WHERE workspace_id = 'w'; END $$;
		DROP TABLE closed_period`); err != nil {
		t.Fatal(err)
	}
	found := layoutFaults(t, db)
	for _, want := range []string{
		"homeless has no place in distribute.Layout",
		"distribute.Layout places closed_period, which does not exist",
		"invoice: invoice_id_key does not have workspace_id: the nodes cannot hold it together",
		"api_key: api_key_workspace_id_key_id_fkey refers to webhook: from on every node to by workspace",
		"charge: charge_workspace_id_id_fkey refers to webhook_instance: from by workspace to on the coordinator",
		"payment: payment_id_workspace_id_fkey does not refer to the same workspace",
		"client.n draws from a sequence",
		"client: the trigger each is for each row",
		"subscripts(text[]) sets a column to an element of an array, which crashes Citus",
	} {
		if !slices.Contains(found, want) {
			t.Errorf("not seen: %s", want)
		}
		found = slices.DeleteFunc(found, func(fault string) bool { return fault == want })
	}
	if len(found) > 0 {
		t.Errorf("seen besides:\n%s", strings.Join(found, "\n"))
	}
}

func layoutFaults(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	places := map[string]distribute.Place{}
	for _, table := range distribute.Layout() {
		places[table.Name] = table.Place
	}
	return slices.Concat(placeFaults(t, db, places), uniqueFaults(t, db, places), tieFaults(t, db, places), counterAndTriggerFaults(t, db), subscriptFaults(t, db))
}

func placeFaults(t *testing.T, db *pgxpool.Pool, places map[string]distribute.Place) (found []string) {
	t.Helper()
	type named struct{ Name string }
	there := map[string]bool{}
	for _, table := range gather[named](t, db, `
		SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`) {
		there[table.Name] = true
		if places[table.Name] == "" {
			found = append(found, table.Name+" has no place in distribute.Layout")
		}
	}
	for _, table := range distribute.Layout() {
		if !there[table.Name] {
			found = append(found, "distribute.Layout places "+table.Name+", which does not exist")
		}
	}
	return found
}

// uniqueFaults: a node sees its own rows alone, so it can keep unique only what has the
// workspace in it.
func uniqueFaults(t *testing.T, db *pgxpool.Pool, places map[string]distribute.Place) (found []string) {
	t.Helper()
	type index struct {
		Table, Name string
		Columns     []string
	}
	for _, i := range gather[index](t, db, `
		SELECT c.relname::text, x.indexrelid::regclass::text,
		       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (x.indkey))
		  FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid
		 WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition AND (x.indisunique OR x.indisexclusion) ORDER BY 1, 2`) {
		if places[i.Table] == distribute.ByWorkspace && !slices.Contains(i.Columns, shardKey) {
			found = append(found, fmt.Sprintf("%s: %s does not have %s: the nodes cannot hold it together", i.Table, i.Name, shardKey))
		}
	}
	return found
}

// tieFaults: a foreign key is checked on one node, so that both rows have to be there.
func tieFaults(t *testing.T, db *pgxpool.Pool, places map[string]distribute.Place) (found []string) {
	t.Helper()
	type tie struct {
		Table, Name, To string
		Same            bool
	}
	for _, k := range gather[tie](t, db, `
		SELECT k.conrelid::regclass::text, k.conname::text, k.confrelid::regclass::text, EXISTS (
		       SELECT FROM unnest(k.conkey, k.confkey) AS n (f, t)
		         JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = n.f AND a.attname = 'workspace_id'
		         JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = n.t AND b.attname = 'workspace_id')
		  FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0 AND k.connamespace = 'public'::regnamespace ORDER BY 1, 2`) {
		from, to := places[k.Table], places[k.To]
		switch {
		case from != to && (from != distribute.ByWorkspace || to != distribute.EveryNode):
			found = append(found, fmt.Sprintf("%s: %s refers to %s: from %s to %s", k.Table, k.Name, k.To, from, to))
		case !k.Same:
			found = append(found, fmt.Sprintf("%s: %s does not refer to the same workspace", k.Table, k.Name))
		}
	}
	return found
}

func counterAndTriggerFaults(t *testing.T, db *pgxpool.Pool) (found []string) {
	t.Helper()
	type at struct{ Table, Name string }
	for _, c := range gather[at](t, db, `
		SELECT c.relname::text, a.attname::text FROM pg_class c
		  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
		  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		 WHERE `+ours+` AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval%') ORDER BY 1, 2`) {
		found = append(found, c.Table+"."+c.Name+" draws from a sequence")
	}
	for _, g := range gather[at](t, db, `
		SELECT c.relname::text, g.tgname::text FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
		 WHERE `+ours+` AND NOT g.tgisinternal AND g.tgparentid = 0 AND g.tgtype & 1 <> 0 ORDER BY 1, 2`) {
		found = append(found, g.Table+": the trigger "+g.Name+" is for each row")
	}
	return found
}

// setElement finds a column that is set to an element of an array.
var setElement = regexp.MustCompile(`(?is)\bUPDATE\b[^;]*?\bSET\b[^;]*?=\s*[a-z_.]+\[[^;]*?(\bWHERE\b|;)`)

// subscriptFaults: UPDATE … SET column = array[i] of a distributed table ends the server
// process of Citus 13.2 with a segmentation fault.
func subscriptFaults(t *testing.T, db *pgxpool.Pool) (found []string) {
	t.Helper()
	for _, f := range functionsOf(t, db) {
		for _, update := range setElement.FindAllString(f.Definition, -1) {
			set, _, _ := strings.Cut(update, "WHERE")
			if regexp.MustCompile(`=\s*[a-z_.]+\[`).MatchString(set) {
				found = append(found, f.Name+" sets a column to an element of an array, which crashes Citus")
				break
			}
		}
	}
	return found
}
