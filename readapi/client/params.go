package client

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"time"
)

// The parameters of the lists. A field with its zero value is not sent. docs/contract/service.md,
// "Endpoints", has the rules. Dates are inclusive.
//
// Limit is the number of rows on a page, 1 to 100. A cursor belongs to all parameters: to go on
// with it, leave them as they are.
type (
	// InvoiceParams select invoices.
	InvoiceParams struct {
		Limit          int           `query:"limit"`
		UpdatedSince   time.Time     `query:"updated_since"`
		IncludeRemoved bool          `query:"include"`
		Period         string        `query:"period"` // such as 2026-10, 2026-W42 or 2026-BW21
		DateFrom       Date          `query:"date_from"`
		DateTo         Date          `query:"date_to"`
		ClientID       string        `query:"client_id"`
		ContractorID   string        `query:"contractor_id"`
		Status         InvoiceStatus `query:"status"`
		Type           InvoiceType   `query:"type"`
		Open           *bool         `query:"open"` // sent, and something is still to be paid
	}
	// ChargeParams select charges.
	ChargeParams struct {
		Limit          int       `query:"limit"`
		UpdatedSince   time.Time `query:"updated_since"`
		IncludeRemoved bool      `query:"include"`
		Period         string    `query:"period"`
		DateFrom       Date      `query:"date_from"`
		DateTo         Date      `query:"date_to"`
		ClientID       string    `query:"client_id"`
		ContractorID   string    `query:"contractor_id"`
	}
	// TimeEntryParams select time entries.
	TimeEntryParams struct {
		Limit          int             `query:"limit"`
		UpdatedSince   time.Time       `query:"updated_since"`
		IncludeRemoved bool            `query:"include"`
		Period         string          `query:"period"`
		DateFrom       Date            `query:"date_from"`
		DateTo         Date            `query:"date_to"`
		ClientID       string          `query:"client_id"`
		ContractorID   string          `query:"contractor_id"`
		Status         TimeEntryStatus `query:"status"`
	}
	// PaymentParams select payments.
	PaymentParams struct {
		Limit          int       `query:"limit"`
		UpdatedSince   time.Time `query:"updated_since"`
		IncludeRemoved bool      `query:"include"`
		DateFrom       Date      `query:"date_from"`
		DateTo         Date      `query:"date_to"`
		ClientID       string    `query:"client_id"`
		Direction      Direction `query:"direction"`
	}
	// PartyParams select clients or contractors.
	PartyParams struct {
		Limit          int       `query:"limit"`
		UpdatedSince   time.Time `query:"updated_since"`
		IncludeRemoved bool      `query:"include"`
	}
	// CreditParams select the credit of clients.
	CreditParams struct {
		Limit        int       `query:"limit"`
		UpdatedSince time.Time `query:"updated_since"`
	}
	// CreditHistoryParams select rows of the history of credit.
	CreditHistoryParams struct {
		Limit    int    `query:"limit"`
		ClientID string `query:"client_id"`
	}
	// EventParams select events.
	EventParams struct {
		Limit        int       `query:"limit"`
		Type         EventType `query:"type"`
		CreatedSince time.Time `query:"created_since"`
	}
)

// queryOf writes parameters as a query.
func queryOf(params any) url.Values {
	query := url.Values{}
	v := reflect.ValueOf(params)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		var text string
		switch value := v.Field(i).Interface().(type) {
		case bool:
			text = "removed" // of IncludeRemoved
		case *bool:
			text = strconv.FormatBool(*value)
		case time.Time:
			text = value.UTC().Format("2006-01-02T15:04:05.000Z")
		default:
			text = fmt.Sprint(value)
		}
		query.Set(v.Type().Field(i).Tag.Get("query"), text)
	}
	return query
}

// totalsOf writes the parameters of totals.
func totalsOf(params any, groupBy []GroupBy) url.Values {
	query := queryOf(params)
	for i, by := range groupBy {
		if i > 0 {
			by = GroupBy(query.Get("group_by")) + "," + by
		}
		query.Set("group_by", string(by))
	}
	return query
}
