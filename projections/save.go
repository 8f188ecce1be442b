package projections

import (
	"context"

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
	var (
		keys      keys
		clients   []string
		positions []int64
		bases     []string
	)
	for _, w := range f.order {
		for _, row := range f.states[w].CreditMoves.Changed() {
			keys.add(w, row.CreditID)
			clients = append(clients, row.ClientID)
			positions = append(positions, row.Position)
			bases = append(bases, row.Fragments().Base)
		}
	}
	if keys.empty() {
		return
	}
	b.Queue(`
		INSERT INTO credit_move (workspace_id, client_id, id, position, base)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[])`,
		keys.workspaces, clients, keys.ids, positions, bases)
}

func (f *folding) queueSaveClosures(b *pgx.Batch) {
	var (
		keys      keys
		clients   []string
		positions []int64
	)
	for _, w := range f.order {
		for _, row := range f.states[w].Closures.Changed() {
			keys.add(w, row.Period)
			clients = append(clients, row.ClientID)
			positions = append(positions, row.Position)
		}
	}
	if keys.empty() {
		return
	}
	b.Queue(`
		INSERT INTO closed_period (workspace_id, period, client_id, position)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])`,
		keys.workspaces, keys.ids, clients, positions)
}

func (f *folding) queueSaveAnomalies(b *pgx.Batch) {
	var (
		keys      keys
		positions []int64
		reasons   []string
	)
	for _, w := range f.order {
		for _, a := range f.states[w].Anomalies {
			keys.add(w, a.EventID)
			positions = append(positions, a.Position)
			reasons = append(reasons, string(a.Reason))
		}
	}
	if keys.empty() {
		return
	}
	b.Queue(`
		INSERT INTO anomaly (workspace_id, event_id, position, reason)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])`,
		keys.workspaces, keys.ids, positions, reasons)
}
