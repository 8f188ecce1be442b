package readapi_test

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// project folds a workspace's log in memory up to a position (0: all) and writes
// the rows as the schema describes them, with the checkpoint, in one
// transaction.
func (s *stand) project(workspaceID string, upTo int64) {
	s.t.Helper()
	s.projectSilently(workspaceID, upTo)
	s.notifier.Notify(eventlog.TopicProjected, workspaceID)
}

// projectSilently is project without the notification.
func (s *stand) projectSilently(workspaceID string, upTo int64) {
	s.t.Helper()
	ctx := s.t.Context()
	state := s.states[workspaceID]
	if state == nil {
		state = domain.NewState()
		s.states[workspaceID] = state
	}
	state.Reset()
	entries, err := s.log.Read(ctx, workspaceID, state.Position, 1<<30)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range entries {
		if upTo > 0 && entries[i].Position > upTo {
			break
		}
		state.Apply(&entries[i])
	}
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		queueRows(&b, workspaceID, state)
		b.Queue(`UPDATE log_checkpoint SET position = $2, moved_at = $3, rules = 2 WHERE workspace_id = $1 AND consumer = $4`,
			workspaceID, state.Position, s.clock.Now(), eventlog.ReadModels)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func queueRows(b *pgx.Batch, w string, state *domain.State) {
	for _, r := range state.Invoices.Changed() {
		f := r.Fragments()
		put(b, "invoice", w, r.ID, r.Position, map[string]any{
			"shown": r.Shown, "client_id": r.Client.ID, "contractor_id": null(r.Contractor.ID), "period": r.Period,
			"status": r.ClientBillingStatus, "type": r.Type, "base": f.Base, "pay": f.Pay, "margin": f.Margin,
		})
	}
	for _, r := range state.Charges.Changed() {
		f := r.Fragments()
		put(b, "charge", w, r.ID, r.Position, map[string]any{
			"billed": r.BilledToClient, "client_id": r.Client.ID, "contractor_id": null(r.Contractor.ID),
			"invoice_id": null(r.InvoiceID), "period": r.Period, "base": f.Base, "pay": f.Pay,
		})
	}
	for _, r := range state.TimeEntries.Changed() {
		f := r.Fragments()
		put(b, "time_entry", w, r.ID, r.Position, map[string]any{
			"client_id": r.Client.ID, "contractor_id": r.Contractor.ID, "invoice_id": null(r.InvoiceID),
			"period": r.Period, "status": r.Status, "base": f.Base, "pay": f.Pay,
		})
	}
	for _, r := range state.Payments.Changed() {
		put(b, "payment", w, r.ID, r.Position, map[string]any{
			"direction": r.Direction, "client_id": null(r.Client.ID), "contractor_id": null(r.Contractor.ID), "base": r.Fragments().Base,
		})
	}
	for _, r := range state.Clients.Changed() {
		put(b, "client", w, r.ID, r.Position, map[string]any{"base": r.Fragments().Base})
	}
	for _, r := range state.Contractors.Changed() {
		put(b, "contractor", w, r.ID, r.Position, map[string]any{"base": r.Fragments().Base})
	}
	for _, r := range state.Credits.Changed() {
		put(b, "client_credit", w, r.ID, r.Position, map[string]any{"base": r.Fragments().Base})
	}
	for _, r := range state.CreditMoves.Changed() {
		b.Queue(`INSERT INTO credit_move (workspace_id, client_id, id, position, base) VALUES ($1, $2, $3, $4, $5)`,
			w, r.ClientID, r.CreditID, r.Position, r.Fragments().Base)
	}
	for table, removed := range map[string]*domain.Table[domain.Tombstone, *domain.Tombstone]{
		"removed_time_entry": &state.RemovedTimeEntries, "removed_charge": &state.RemovedCharges, "removed_billed_charge": &state.RemovedBilledCharges,
	} {
		for _, r := range removed.Changed() {
			columns := map[string]any{"client_id": r.ClientID, "contractor_id": null(r.ContractorID), "period": r.Period, "base": r.Fragments().Base}
			if table == "removed_time_entry" {
				columns["status"] = r.Status
			}
			put(b, table, w, r.ID, r.Position, columns)
		}
		for _, id := range removed.Gone() {
			b.Queue(`DELETE FROM `+table+` WHERE workspace_id = $1 AND id = $2`, w, id)
		}
	}
	for _, id := range state.Charges.Gone() {
		b.Queue(`DELETE FROM charge WHERE workspace_id = $1 AND id = $2`, w, id)
	}
	for _, id := range state.TimeEntries.Gone() {
		b.Queue(`DELETE FROM time_entry WHERE workspace_id = $1 AND id = $2`, w, id)
	}
}

// put writes a row whether or not it was there.
func put(b *pgx.Batch, table, w, id string, position int64, columns map[string]any) {
	names := []string{"workspace_id", "id", "position"}
	values := []any{w, id, position}
	places := []string{"$1", "$2", "$3"}
	sets := []string{"position = excluded.position"}
	for name, value := range columns {
		names = append(names, name)
		values = append(values, value)
		places = append(places, fmt.Sprintf("$%d", len(values)))
		sets = append(sets, name+" = excluded."+name)
	}
	b.Queue(`INSERT INTO `+table+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(places, ", ")+`)
		ON CONFLICT (workspace_id, id) DO UPDATE SET `+strings.Join(sets, ", "), values...)
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
