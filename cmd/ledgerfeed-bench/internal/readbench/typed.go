package readbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// The baseline is the same page made in the usual way: from typed columns through
// structs and encoding/json. It measures what the stored JSON fragments, a second
// form of every row, save.

type typedInvoice struct {
	typedIdentity
	typedPeriod
	typedAmounts
	typedProgress
	typedPay
}

type typedIdentity struct {
	ID         string      `json:"id"`
	Number     string      `json:"number"`
	Type       string      `json:"type"`
	Reversed   bool        `json:"reversed"`
	Client     typedParty  `json:"client"`
	Contractor *typedParty `json:"contractor"`
}

type typedParty struct {
	ID   string  `json:"id"`
	Name *string `json:"name"`
}

type typedPeriod struct {
	Period      string  `json:"period"`
	PeriodLabel string  `json:"period_label"`
	PeriodStart string  `json:"period_start"`
	PeriodEnd   string  `json:"period_end"`
	PlanName    *string `json:"plan_name"`
}

type typedAmounts struct {
	ClientBillingStatus string   `json:"client_billing_status"`
	GrossAmount         string   `json:"gross_amount"`
	CreditApplied       string   `json:"credit_applied"`
	NetDue              string   `json:"net_due"`
	Currency            string   `json:"currency"`
	BilledExternally    bool     `json:"billed_externally"`
	DeliveredValue      *string  `json:"delivered_value"`
	RecognizedRevenue   *string  `json:"recognized_revenue"`
	BillableHours       *float64 `json:"billable_hours"`
}

type typedProgress struct {
	SentAt       *time.Time    `json:"sent_at"`
	PaidAt       *time.Time    `json:"paid_at"`
	PeriodClosed bool          `json:"period_closed"`
	Issued       []typedIssued `json:"issued_invoices"`
	CreditNote   *string       `json:"credit_note"`
	UpdatedAt    time.Time     `json:"updated_at"`
}

type typedIssued struct {
	Number         string     `json:"number"`
	Amount         string     `json:"amount"`
	Status         string     `json:"status"`
	IssuedAt       time.Time  `json:"issued_at"`
	SentAt         *time.Time `json:"sent_at"`
	PaidAt         *time.Time `json:"paid_at"`
	IsSupplemental bool       `json:"is_supplemental"`
}

type typedPay struct {
	ContractorPayStatus *string    `json:"contractor_pay_status"`
	PayoutAmount        *string    `json:"payout_amount"`
	PayoutSentAt        *time.Time `json:"payout_sent_to_payroll_at"`
	MarginAmount        *string    `json:"margin_amount"`
	MarginPercent       *float64   `json:"margin_percent"`
	MarginNote          *string    `json:"margin_note"`
}

// typedColumns are the columns of the baseline's table, and the expression that
// each is made from.
func typedColumns() [][2]string {
	columns := [][2]string{
		{"number", "d->>'number'"}, {"type", "d->>'type'"}, {"reversed", "(d->>'reversed')::boolean"},
		{"client_id", "d->'client'->>'id'"}, {"client_name", "d->'client'->>'name'"},
		{"contractor_id", "d->'contractor'->>'id'"}, {"contractor_name", "d->'contractor'->>'name'"},
	}
	for _, name := range []string{"period", "period_label", "period_start", "period_end", "plan_name", "client_billing_status", "gross_amount", "credit_applied", "net_due", "currency"} {
		columns = append(columns, [2]string{name, "d->>'" + name + "'"})
	}
	columns = append(columns, [2]string{"billed_externally", "(d->>'billed_externally')::boolean"},
		[2]string{"delivered_value", "d->>'delivered_value'"}, [2]string{"recognized_revenue", "d->>'recognized_revenue'"},
		[2]string{"billable_hours", "(d->>'billable_hours')::float8"}, [2]string{"sent_at", "(d->>'sent_at')::timestamptz"},
		[2]string{"paid_at", "(d->>'paid_at')::timestamptz"}, [2]string{"period_closed", "(d->>'period_closed')::boolean"},
		[2]string{"issued", "d->'issued_invoices'"}, [2]string{"credit_note", "d->>'credit_note'"},
		[2]string{"updated_at", "(d->>'updated_at')::timestamptz"}, [2]string{"contractor_pay_status", "d->>'contractor_pay_status'"},
		[2]string{"payout_amount", "d->>'payout_amount'"}, [2]string{"payout_sent_at", "(d->>'payout_sent_to_payroll_at')::timestamptz"},
		[2]string{"margin_amount", "d->>'margin_amount'"}, [2]string{"margin_percent", "(d->>'margin_percent')::float8"}, [2]string{"margin_note", "d->>'margin_note'"})
	return columns
}

// typedRate measures the baseline, with the same authentication before it.
func (r *reader) typedRate(ctx context.Context, key string) (float64, error) {
	var made, names []string
	for _, c := range typedColumns() {
		made = append(made, c[1]+" AS "+c[0])
		names = append(names, c[0])
	}
	for _, sql := range []string{
		`CREATE TABLE typed_invoice AS SELECT workspace_id, id, position, ` + strings.Join(made, ", ") + `
		   FROM (SELECT workspace_id, id, position, (base || pay || margin || '}')::jsonb AS d FROM invoice WHERE workspace_id = '` + narrowWorkspace + `') AS i`,
		`CREATE INDEX typed_invoice_list ON typed_invoice (workspace_id, position, id)`,
		`ANALYZE typed_invoice`,
	} {
		if _, err := r.Pool.Exec(ctx, sql); err != nil {
			return 0, fmt.Errorf("cannot make the baseline's table: %w", err)
		}
	}
	pool, err := pg.Open(ctx, r.URL, pg.Options{MaxConns: 12, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings()})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	handler := &typedHandler{pool: pool, server: r.cached, sql: `SELECT id, position, ` + strings.Join(names, ", ") + `
		FROM typed_invoice WHERE workspace_id = $1 AND (position, id) > ($2, $3) ORDER BY position, id LIMIT $4`}
	address, err := api.Listen(serving, &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute})
	if err != nil {
		return 0, err
	}
	return api.Saturate(ctx, r.Options, api.Request{Host: address, Path: invoices, Key: key})
}

type typedHandler struct {
	pool   pg.DB
	server *api.Server
	sql    string
}

func (h *typedHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	key, err := h.server.Directory.Authenticate(req.Context(), text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	page, err := h.read(req.Context(), key.WorkspaceID)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := json.Marshal(page)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body)
}

type typedPage struct {
	Data       []typedInvoice `json:"data"`
	HasMore    bool           `json:"has_more"`
	NextCursor string         `json:"next_cursor"`
}

func (h *typedHandler) read(ctx context.Context, workspaceID string) (*typedPage, error) {
	const limit = 50
	rows, err := h.pool.Query(ctx, h.sql, workspaceID, 0, "", limit+1)
	if err != nil {
		return nil, fmt.Errorf("the baseline: %w", err)
	}
	p := &typedPage{Data: make([]typedInvoice, 0, limit+1)}
	p.Data, err = pgx.AppendRows(p.Data, rows, scanTyped)
	if err != nil {
		return nil, err
	}
	if p.HasMore = len(p.Data) > limit; p.HasMore {
		p.Data = p.Data[:limit]
	}
	if len(p.Data) == 0 {
		return nil, errors.New("the baseline read nothing")
	}
	p.NextCursor = p.Data[len(p.Data)-1].ID
	return p, nil
}

func scanTyped(row pgx.CollectableRow) (v typedInvoice, err error) {
	var (
		position       int64
		contractorID   *string
		contractorName *string
	)
	err = row.Scan(&v.ID, &position, &v.Number, &v.Type, &v.Reversed, &v.Client.ID, &v.Client.Name, &contractorID, &contractorName,
		&v.Period, &v.PeriodLabel, &v.PeriodStart, &v.PeriodEnd, &v.PlanName, &v.ClientBillingStatus, &v.GrossAmount, &v.CreditApplied,
		&v.NetDue, &v.Currency, &v.BilledExternally, &v.DeliveredValue, &v.RecognizedRevenue, &v.BillableHours, &v.SentAt, &v.PaidAt,
		&v.PeriodClosed, &v.Issued, &v.CreditNote, &v.UpdatedAt, &v.ContractorPayStatus, &v.PayoutAmount, &v.PayoutSentAt,
		&v.MarginAmount, &v.MarginPercent, &v.MarginNote)
	if contractorID != nil {
		v.Contractor = &typedParty{ID: *contractorID, Name: contractorName}
	}
	return v, err
}
