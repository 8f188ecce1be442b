package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

// runTask is the runner of the Go client: it does what a task says and tells what it found.
func runTask(ctx context.Context, in input) (*result, error) {
	got := &result{Waits: []float64{}}
	api, err := client.New(client.Config{
		URL: in.URL, Key: in.Keys[in.Scenario.Key], CacheEntries: in.Scenario.Cache, Random: func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			got.Waits = append(got.Waits, d.Seconds())
			flow.Sleep(ctx, d/1000)
			return ctx.Err()
		},
	})
	if err != nil {
		return nil, err
	}
	task := in.Scenario
	switch task.Do {
	case "compare":
		err = compare(task.Pairs, got)
	case "verify":
		for _, m := range task.Messages {
			got.Verdicts = append(got.Verdicts, verdict(client.Verify(m.header(), []byte(m.Body), m.Secrets, time.Unix(m.Now, 0))))
		}
	case "receive":
		err = receive(ctx, task.Messages, got)
	default:
		list, ok := scenarioLists[task.List]
		if !ok {
			return nil, fmt.Errorf("there is no list %q", task.List)
		}
		err = list(ctx, api.AtLeast(task.Position), &task, got)
	}
	got.Error = failureOf(err)
	return got, nil
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Kind: "other", Message: err.Error()}
	if refused, ok := errors.AsType[*client.Error](err); ok {
		f.Kind, f.Status, f.Code, f.RequestID = "api", refused.Status, string(refused.Code), refused.RequestID
	} else if errors.Is(err, client.ErrBrokenOff) {
		f.Kind = "broken_off"
	}
	return f
}

// scenarioLists are the lists by their names in addresses.
var scenarioLists = map[string]func(context.Context, *client.Client, *task, *result) error{
	"invoices": methods[client.Invoice, client.InvoiceParams]{
		(*client.Client).Invoices, (*client.Client).InvoicePages, (*client.Client).FollowInvoices, (*client.Client).WholeInvoices, (*client.Client).Invoice,
		totalsRows((*client.Client).InvoiceTotals, func(t *client.InvoiceTotals) any { return t.Data }),
	}.do,
	"charges": methods[client.Charge, client.ChargeParams]{
		(*client.Client).Charges, (*client.Client).ChargePages, (*client.Client).FollowCharges, (*client.Client).WholeCharges, (*client.Client).Charge, nil,
	}.do,
	"time-entries": methods[client.TimeEntry, client.TimeEntryParams]{
		(*client.Client).TimeEntries, (*client.Client).TimeEntryPages, (*client.Client).FollowTimeEntries, (*client.Client).WholeTimeEntries, (*client.Client).TimeEntry,
		totalsRows((*client.Client).TimeEntryTotals, func(t *client.TimeEntryTotals) any { return t.Data }),
	}.do,
	"payments": methods[client.Payment, client.PaymentParams]{
		(*client.Client).Payments, (*client.Client).PaymentPages, (*client.Client).FollowPayments, (*client.Client).WholePayments, (*client.Client).Payment, nil,
	}.do,
	"clients": methods[client.ClientRecord, client.PartyParams]{
		(*client.Client).Clients, (*client.Client).ClientPages, (*client.Client).FollowClients, (*client.Client).WholeClients, (*client.Client).Client, nil,
	}.do,
	"contractors": methods[client.Contractor, client.PartyParams]{
		(*client.Client).Contractors, (*client.Client).ContractorPages, (*client.Client).FollowContractors, (*client.Client).WholeContractors, (*client.Client).Contractor, nil,
	}.do,
	"credits": methods[client.Credit, client.CreditParams]{
		(*client.Client).Credits, (*client.Client).CreditPages, (*client.Client).FollowCredits, (*client.Client).WholeCredits, nil, nil,
	}.do,
	"credit-history": methods[client.CreditMovement, client.CreditHistoryParams]{
		(*client.Client).CreditHistory, (*client.Client).CreditHistoryPages, (*client.Client).FollowCreditHistory, (*client.Client).WholeCreditHistory, nil, nil,
	}.do,
	"events": methods[client.Event, client.EventParams]{
		(*client.Client).Events, (*client.Client).EventPages, (*client.Client).FollowEvents, nil, (*client.Client).Event, nil,
	}.do,
}

// methods are what a Client has for a list.
type methods[T, P any] struct {
	rows   func(*client.Client, context.Context, P) iter.Seq2[*T, error]
	pages  func(*client.Client, context.Context, P) iter.Seq2[*client.Page[T], error]
	follow func(*client.Client, context.Context, P, client.State, client.FollowOptions) iter.Seq2[*client.Page[T], error]
	whole  func(*client.Client, P) *client.Whole[T]
	get    func(*client.Client, context.Context, string) (*T, error)
	totals func(*client.Client, context.Context, P, []client.GroupBy) ([]json.RawMessage, error)
}

func (m methods[T, P]) do(ctx context.Context, api *client.Client, task *task, got *result) error {
	var params P
	if err := readParams(task.Params, &params); err != nil {
		return err
	}
	switch task.Do {
	case "rows":
		return takeRows(m.rows(api, ctx, params), got)
	case "sum":
		return sums(m.rows(api, ctx, params), task.Field, got)
	case "pages":
		return takePages(m.pages(api, ctx, params), task, got)
	case "follow":
		return takePages(m.follow(api, ctx, params, client.FileState(task.State), client.FollowOptions{StartAgain: task.StartAgain, Once: task.Once}), task, got)
	case "whole":
		whole := m.whole(api, params)
		err := takeRows(whole.Rows(ctx), got)
		got.Cursor = new(whole.Cursor() != "")
		got.Removed = removedIDs(whole.Removed())
		return err
	case "get":
		for range max(1, task.Times) {
			row, err := m.get(api, ctx, task.ID)
			if err != nil {
				return err
			}
			got.Rows = append(got.Rows, json.RawMessage(text(row)))
		}
		return nil
	case "totals":
		var by []client.GroupBy
		for _, g := range task.GroupBy {
			by = append(by, client.GroupBy(g))
		}
		rows, err := m.totals(api, ctx, params, by)
		got.Rows = rows
		return err
	}
	return fmt.Errorf("nobody knows how to do %q", task.Do)
}

// totalsRows makes one form of the methods for totals.
func totalsRows[T, P any](totals func(*client.Client, context.Context, P, ...client.GroupBy) (*T, error), data func(*T) any) func(*client.Client, context.Context, P, []client.GroupBy) ([]json.RawMessage, error) {
	return func(api *client.Client, ctx context.Context, params P, by []client.GroupBy) (rows []json.RawMessage, err error) {
		t, err := totals(api, ctx, params, by...)
		if err != nil {
			return nil, err
		}
		list, err := json.Marshal(data(t))
		if err != nil {
			return nil, err
		}
		err = json.Unmarshal(list, &rows)
		return rows, err
	}
}

// readParams sets the fields of a struct whose tags are named in an object.
func readParams(object json.RawMessage, params any) error {
	var named map[string]any
	if len(object) == 0 {
		return nil
	}
	if err := json.Unmarshal(object, &named); err != nil {
		return err
	}
	v := reflect.ValueOf(params).Elem()
	for i := range v.NumField() {
		value, ok := named[v.Type().Field(i).Tag.Get("query")]
		if !ok {
			continue
		}
		switch field := v.Field(i).Addr().Interface().(type) {
		case *int:
			*field = int(value.(float64))
		case *bool:
			*field = value == "removed"
		case **bool:
			*field = new(value.(bool))
		case *time.Time:
			at, err := time.Parse(time.RFC3339Nano, value.(string))
			if err != nil {
				return err
			}
			*field = at
		default:
			v.Field(i).SetString(value.(string))
		}
	}
	return nil
}

func takeRows[T any](rows iter.Seq2[*T, error], got *result) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		got.Rows = append(got.Rows, json.RawMessage(text(row)))
	}
	return nil
}

func takePages[T any](pages iter.Seq2[*client.Page[T], error], task *task, got *result) error {
	for p, err := range pages {
		if err != nil {
			return err
		}
		taken := resultPage{Rows: []json.RawMessage{}, Removed: removedIDs(p.Removed)}
		for i := range p.Rows {
			taken.Rows = append(taken.Rows, json.RawMessage(text(&p.Rows[i])))
		}
		if p.Restarted != nil {
			taken.Restarted = string(p.Restarted.Code)
		}
		got.Pages = append(got.Pages, taken)
		if len(got.Pages) == task.LeaveAt || task.UntilPosition > 0 && p.Position >= task.UntilPosition && !p.More {
			return nil
		}
	}
	return nil
}

func removedIDs(rows []client.RemovedRow) []string {
	ids := []string{}
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// sums adds up the decimals of a field by currency.
func sums[T any](rows iter.Seq2[*T, error], field string, got *result) error {
	exact := map[string]*big.Rat{}
	for row, err := range rows {
		if err != nil {
			return err
		}
		var members map[string]json.RawMessage
		var amount client.Decimal
		if err := errors.Join(json.Unmarshal([]byte(text(row)), &members), json.Unmarshal(members[field], &amount)); err != nil {
			return err
		}
		currency := strings.Trim(string(members["currency"]), `"`)
		if exact[currency] == nil {
			exact[currency] = new(big.Rat)
		}
		exact[currency].Add(exact[currency], amount.Rat())
	}
	got.Sums = map[string]string{}
	for currency, sum := range exact {
		got.Sums[currency] = sum.FloatString(4)
	}
	return nil
}

func compare(pairs [][2]string, got *result) error {
	for _, pair := range pairs {
		a, err := client.ParseDecimal(pair[0])
		if err != nil {
			return err
		}
		b, err := client.ParseDecimal(pair[1])
		if err != nil {
			return err
		}
		got.Compared = append(got.Compared, a.Cmp(b))
	}
	return nil
}

func (m *hook) header() http.Header {
	header := http.Header{}
	for name, value := range m.Headers {
		header.Set(name, value)
	}
	return header
}

func verdict(err error) string {
	switch {
	case err == nil:
		return "good"
	case errors.Is(err, client.ErrNoSignature):
		return "no_signature"
	case errors.Is(err, client.ErrBadSignature):
		return "bad_signature"
	case errors.Is(err, client.ErrTimestamp):
		return "timestamp"
	}
	return err.Error()
}

// receive sends messages to one receiver.
func receive(ctx context.Context, messages []hook, got *result) error {
	var current hook
	h, err := client.NewWebhook(client.WebhookConfig{
		Secrets: messages[0].Secrets, Now: func() time.Time { return time.Unix(current.Now, 0) },
		Handle: func(_ context.Context, d *client.Delivery) error {
			got.Handled = append(got.Handled, handled{d.Event.ID, string(d.Event.Type), d.ID, d.Position})
			if current.Fails {
				return errors.New("the queue is full")
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	for _, current = range messages {
		method := http.MethodPost
		if current.Method != "" {
			method = current.Method
		}
		r := httptest.NewRequestWithContext(ctx, method, "/hook", strings.NewReader(current.Body))
		r.Header = current.header()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got.Statuses = append(got.Statuses, w.Code)
	}
	return nil
}
