package eventlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestChainIsTheDomains: the database and the domain compute the same chain, for
// every type and for texts that JSON has to escape.
func TestChainIsTheDomains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	texts := []string{"plain", `quotes " and \ `, "line\nand\ttab", "é 日本 😀   <&>", "a'b$1%s"}
	var drafts []domain.Draft
	for i, text := range texts {
		d, err := domain.NewDraft("w", "contractor.recorded", fmt.Appendf(nil, `{"contractor_id":"c","name":%s,"client_id":"k"}`, jsonText(text)))
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, d)
		d, err = domain.NewDraft("w", "invoice.issued", fmt.Appendf(nil, `{"invoice_id":"i%d","invoice_number":%s,"amount":"1.00"}`, i, jsonText(text)))
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, d)
	}
	b.append(t, drafts...)
	for i := range drafts {
		drafts[i].ID = ""
		b.append(t, drafts[i])
	}
	entries := b.soundLog(t, "w")
	if len(entries) != 2*len(drafts) {
		t.Fatalf("%d entries, want %d", len(entries), 2*len(drafts))
	}
	for i := range drafts {
		if entries[i].Whole() != drafts[i].Data || entries[i].Type != drafts[i].Type {
			t.Errorf("entry %d is %s %s, want %s %s", i+1, entries[i].Type, entries[i].Whole(), drafts[i].Type, drafts[i].Data)
		}
	}
}

// jsonText writes a string as JSON, escaping only what JSON requires.
func jsonText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// TestChainOfAStream appends the fixture agency and checks the whole log.
func TestChainOfAStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.clock.Advance(10 * 365 * 24 * time.Hour) // some entries are later than the clock
	perWorkspace := map[string]int{}
	var drafts []domain.Draft
	for line := range bytes.Lines(agency(t)) {
		d, err := domain.DecodeDraft(bytes.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		perWorkspace[d.WorkspaceID]++
		drafts = append(drafts, d)
	}
	receipts := b.append(t, drafts...)
	for w, n := range perWorkspace {
		entries := b.soundLog(t, w)
		if len(entries) != n {
			t.Errorf("%s has %d entries, want %d", w, len(entries), n)
		}
	}
	for i, r := range receipts {
		if !drafts[i].CreatedAt.IsZero() && !r.CreatedAt.Equal(drafts[i].CreatedAt) {
			t.Errorf("entry %d was published at %v, want %v", i, r.CreatedAt, drafts[i].CreatedAt)
		}
	}
	for i, r := range b.append(t, drafts...) {
		if !r.Skipped || r.Position != receipts[i].Position {
			t.Errorf("entry %d again: %+v", i, r)
		}
	}
}

// TestLogIsAppendOnly: the database itself refuses changes, also to its owner.
func TestLogIsAppendOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, client(t, "w", "a", "n"))
	for _, sql := range []string{
		`UPDATE event_log SET data = '{}' WHERE workspace_id = 'w'`,
		`UPDATE event_log SET position = position WHERE id = 'none'`, // also if no row would change
		`DELETE FROM event_log`,
		`DELETE FROM event_log WHERE id = 'none'`,
		`TRUNCATE event_log`,
		`TRUNCATE event_log, workspace CASCADE`,
		`INSERT INTO event_log SELECT * FROM event_log ON CONFLICT (workspace_id, position) DO UPDATE SET data = '{}'`,
		`MERGE INTO event_log e USING workspace w ON w.workspace_id = e.workspace_id WHEN MATCHED THEN DELETE`,
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || !strings.Contains(pgErr.Message, "append-only") || pgErr.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if entries := b.soundLog(t, "w"); len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}
