package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// save writes what the fold has changed, in one round trip.
func (f *folding) save(ctx context.Context, tx pgx.Tx) error {
	t := f.tables
	var b pgx.Batch
	t.invoices.queueSave(&b, f.order, f.states)
	t.charges.queueSave(&b, f.order, f.states)
	t.timeEntries.queueSave(&b, f.order, f.states)
	t.payments.queueSave(&b, f.order, f.states)
	t.clients.queueSave(&b, f.order, f.states)
	t.contractors.queueSave(&b, f.order, f.states)
	t.credits.queueSave(&b, f.order, f.states)
	f.queueSaveMoves(&b)
	f.queueSaveClosures(&b)
	f.queueSaveAnomalies(&b)
	return send(ctx, tx, &b)
}

func (f *folding) queueSaveMoves(b *pgx.Batch) {
	a := additionsTo(f.tables.named("credit_move"), "client_id", "id", "base")
	for _, w := range f.order {
		for _, row := range f.states[w].CreditMoves.Changed() {
			a.add(w, row.Position, row.ClientID, row.CreditID, row.Fragments().Base)
		}
	}
	a.queue(b)
}

func (f *folding) queueSaveClosures(b *pgx.Batch) {
	a := additionsTo(f.tables.named("closed_period"), "period", "client_id")
	for _, w := range f.order {
		for _, row := range f.states[w].Closures.Changed() {
			a.add(w, row.Position, row.Period, row.ClientID)
		}
	}
	a.queue(b)
}

func (f *folding) queueSaveAnomalies(b *pgx.Batch) {
	a := additionsTo(f.tables.named("anomaly"), "event_id", "reason")
	for _, w := range f.order {
		for _, anomaly := range f.states[w].Anomalies {
			a.add(w, anomaly.Position, anomaly.EventID, string(anomaly.Reason))
		}
	}
	a.queue(b)
}

// additions are rows for a table whose rows are made once and never change.
type additions struct {
	table      string
	columns    []string // texts, beside the workspace and the position
	workspaces []string
	positions  []int64
	texts      [][]string // by column
}

func additionsTo(table string, columns ...string) *additions {
	return &additions{table: table, columns: columns, texts: make([][]string, len(columns))}
}

func (a *additions) add(workspaceID string, position int64, texts ...string) {
	a.workspaces = append(a.workspaces, workspaceID)
	a.positions = append(a.positions, position)
	for i, text := range texts {
		a.texts[i] = append(a.texts[i], text)
	}
}

// queue asks for the rows to be written.
func (a *additions) queue(b *pgx.Batch) {
	if len(a.workspaces) == 0 {
		return
	}
	args := []any{a.workspaces, a.positions}
	arrays := "$1::text[], $2::bigint[]"
	for i, column := range a.texts {
		args = append(args, column)
		arrays += fmt.Sprintf(", $%d::text[]", i+3)
	}
	b.Queue("INSERT INTO "+a.table+" (workspace_id, position, "+strings.Join(a.columns, ", ")+")"+
		" SELECT * FROM unnest("+arrays+")", args...)
}
