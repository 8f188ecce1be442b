package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

const (
	// pageRows is how many rows a page of the API has, at most.
	pageRows = "100"
	// maxSearched is how many events the search for an object's history reads.
	maxSearched = 10_000
	// maxTries is how often totals and the ids that they rest on are read, until they are of one
	// position.
	maxTries = 3
)

// formOfIDs keeps an id from leading to another path.
var formOfIDs = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// call answers a call. An error is part of the answer, so that the model can do better.
func (t *tool) call(ctx context.Context, api *client.Client, arguments json.RawMessage) *mcp.CallToolResult {
	result, err := t.try(ctx, api, arguments)
	if err != nil {
		result = &mcp.CallToolResult{}
		result.SetError(err)
	}
	return result
}

func (t *tool) try(ctx context.Context, api *client.Client, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	given, err := t.read(arguments)
	if err != nil {
		return nil, err
	}
	var a *answer
	switch t.kind {
	case list:
		a, err = t.list(ctx, api, given)
	case feed:
		a, err = t.feed(ctx, api, given)
	case totals:
		a, err = t.totals(ctx, api, given)
	case credit:
		a, err = t.credit(ctx, api, given)
	case object:
		a, err = t.object(ctx, api, given)
	}
	if err != nil {
		return nil, err
	}
	return a.result(t)
}

// read checks the names of arguments, and that required ones are there. The API judges their values.
func (t *tool) read(arguments json.RawMessage) (url.Values, error) {
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber()
	var values map[string]any
	if len(arguments) > 0 {
		if err := decoder.Decode(&values); err != nil {
			return nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
		}
	}
	given, known := url.Values{}, []string{}
	for _, a := range t.arguments {
		value, ok := values[a.name]
		if known = append(known, a.name); !ok && a.required {
			return nil, fmt.Errorf("%s needs the argument %s", t.name, a.name)
		}
		if !ok {
			continue
		}
		several, ok := value.([]any)
		if !ok {
			several = []any{value}
		}
		for _, one := range several {
			switch one.(type) {
			case string, json.Number, bool:
			default:
				return nil, fmt.Errorf("%s: want a text, a number, true or false", a.name)
			}
			given.Add(a.name, fmt.Sprint(one))
		}
		if slices.Contains(given[a.name], "") || len(given[a.name]) == 0 {
			return nil, fmt.Errorf("%s is empty: leave it out, or give it a value", a.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s has no argument %q. It has: %s", t.name, name, strings.Join(known, ", "))
		}
	}
	if id := given.Get(argID); given.Has(argID) && !formOfIDs.MatchString(id) {
		return nil, fmt.Errorf("id: want letters, digits, _ and - alone")
	}
	return given, nil
}

// take removes an argument that is not the API's.
func take(given url.Values, name string) []string {
	value := given[name]
	given.Del(name)
	return value
}

// page is a page of a list.
type page struct {
	Data       []json.RawMessage `json:"data"`
	HasMore    bool              `json:"has_more"`
	NextCursor string            `json:"next_cursor"`
	position   int64
}

func readPage(ctx context.Context, api *client.Client, path string, query url.Values) (*page, error) {
	raw, err := api.Raw(ctx, path, query)
	if err != nil {
		return nil, err
	}
	p := &page{position: raw.Position}
	if err := json.Unmarshal(raw.Body, p); err != nil {
		return nil, fmt.Errorf("read a page of %s: %w", path, err)
	}
	return p, nil
}

// readList hands all rows of a list to take, all of one position of the log. A page has all rows of
// most answers. A longer list is read whole.
func readList(ctx context.Context, api *client.Client, path string, query url.Values, take func(json.RawMessage) error) (int64, error) {
	first := maps.Clone(query)
	first.Set("limit", pageRows)
	p, err := readPage(ctx, api, path, first)
	if err != nil {
		return 0, err
	}
	if !p.HasMore {
		for _, row := range p.Data {
			if err := take(row); err != nil {
				return 0, err
			}
		}
		return p.position, nil
	}
	whole := api.RawList(path, query).Whole("")
	for row, err := range whole.Rows(ctx) {
		if err == nil {
			err = take(json.RawMessage(*row))
		}
		if err != nil {
			return 0, err
		}
	}
	return whole.Position(), nil
}

// list reads a list.
func (t *tool) list(ctx context.Context, api *client.Client, given url.Values) (*answer, error) {
	fields := take(given, argFields)
	sought := texts.Fold(strings.Join(take(given, argContaining), ""))
	for _, name := range fields {
		if !slices.Contains(t.fields, name) {
			return nil, fmt.Errorf("fields: rows have no field %q. They have: %s", name, strings.Join(t.fields, ", "))
		}
	}
	a := &answer{}
	var err error
	a.Position, err = readList(ctx, api, t.path, given, func(row json.RawMessage) error {
		if sought != "" {
			var value any
			if err := json.Unmarshal(row, &value); err != nil {
				return fmt.Errorf("read a row of %s: %w", t.path, err)
			}
			if !hasText(value, sought) {
				return nil
			}
		}
		return a.add(t, row, fields)
	})
	if err != nil {
		return nil, err
	}
	return a.ofRows()
}

// hasText says whether one of the texts in a JSON value contains a folded text.
func hasText(value any, text string) bool {
	switch value := value.(type) {
	case string:
		return strings.Contains(texts.Fold(value), text)
	case []any:
		return slices.ContainsFunc(value, func(one any) bool { return hasText(one, text) })
	case map[string]any:
		for _, one := range value {
			if hasText(one, text) {
				return true
			}
		}
	}
	return false
}

// feed reads events. Pages of the feed follow each other without a gap, so they are one answer.
func (t *tool) feed(ctx context.Context, api *client.Client, given url.Values) (*answer, error) {
	one := given.Has("limit")
	if !one {
		given.Set("limit", pageRows)
	}
	for a := (&answer{}); ; {
		p, err := readPage(ctx, api, t.path, given)
		if err != nil {
			return nil, err
		}
		for _, row := range p.Data {
			if err := a.add(t, row, nil); err != nil {
				return nil, err
			}
		}
		if one || !p.HasMore {
			a.Position, a.HasMore, a.NextCursor = p.position, &p.HasMore, p.NextCursor
			return a.ofRows()
		}
		given.Set("cursor", p.NextCursor)
	}
}

// totals reads sums, and the ids of the rows that were added up.
func (t *tool) totals(ctx context.Context, api *client.Client, given url.Values) (*answer, error) {
	query := maps.Clone(given)
	if groups := take(given, "group_by"); groups != nil {
		query.Set("group_by", strings.Join(groups, ","))
	}
	a := &answer{}
	for range maxTries {
		p, err := readPage(ctx, api, t.path, query)
		if err != nil {
			return nil, err
		}
		a.Position, a.rows = p.position, p.Data
		added := 0
		for _, row := range p.Data {
			var sums struct {
				Count int `json:"count"`
			}
			if err := json.Unmarshal(row, &sums); err != nil {
				return nil, fmt.Errorf("read %s: %w", t.path, err)
			}
			added += sums.Count
		}
		if added > maxIDs {
			break
		}
		of := &answer{}
		at, err := readList(ctx, api, t.listPath(), given, func(row json.RawMessage) error { return of.add(t, row, []string{"id"}) })
		if err != nil {
			return nil, err
		}
		if at == a.Position {
			a.IDs = of.IDs
			return a.ofRows()
		}
	}
	a.IDsFrom = &reference{Tool: t.sibling, Arguments: map[string]string{}}
	for name := range given {
		a.IDsFrom.Arguments[name] = given.Get(name)
	}
	return a.ofRows()
}

// listPath is the path of the list that totals add up.
func (t *tool) listPath() string { return strings.Replace(t.path, "/totals/", "/", 1) }

// credit reads a client's credit with all of its history.
func (t *tool) credit(ctx context.Context, api *client.Client, given url.Values) (*answer, error) {
	id := given.Get(argID)
	raw, err := api.Raw(ctx, strings.Replace(t.path, "{id}", id, 1), url.Values{"limit": {pageRows}})
	if err != nil {
		return nil, err
	}
	var p struct {
		HasMore bool              `json:"has_more"`
		History []json.RawMessage `json:"history"`
	}
	if err := json.Unmarshal(raw.Body, &p); err != nil {
		return nil, fmt.Errorf("read the credit: %w", err)
	}
	if p.HasMore {
		return nil, &tooLongError{t}
	}
	a := &answer{Position: raw.Position, IDs: []string{id}}
	for _, row := range p.History {
		if err := a.add(t, row, nil); err != nil {
			return nil, err
		}
	}
	a.Data = raw.Body
	return a, nil
}

// object reads an object and the events about it. The events come first, so that the object is not
// older than its history.
func (t *tool) object(ctx context.Context, api *client.Client, given url.Values) (*answer, error) {
	id, of := given.Get(argID), given.Get(argType)
	at, ok := t.objects[of]
	if !ok {
		return nil, fmt.Errorf("type: want one of %s", strings.Join(slices.Sorted(maps.Keys(t.objects)), ", "))
	}
	a := &answer{IDs: []string{id}}
	if given.Get(argHistory) != "false" && of != "event" {
		if err := a.search(ctx, api, t, of, id, given.Get(argHistorySince)); err != nil {
			return nil, err
		}
		api = api.AtLeast(a.History.Position)
	}
	raw, err := api.Raw(ctx, strings.Replace(at, "{id}", id, 1), nil)
	if err != nil {
		return nil, err
	}
	a.Data, a.Position = raw.Body, raw.Position
	return a, nil
}

// event is the part of an event that says what it is about.
type event struct {
	Data map[string]string `json:"data"`
}

// search finds the events about an object.
func (a *answer) search(ctx context.Context, api *client.Client, t *tool, of, id, since string) error {
	query := url.Values{"limit": {pageRows}}
	if since != "" {
		query.Set("created_since", since)
	}
	for searched := 0; ; {
		p, err := readPage(ctx, api, "/v1/events", query)
		if err != nil {
			return fmt.Errorf("the history, without which you get the object with history=false: %w", err)
		}
		for _, row := range p.Data {
			var e event
			if err := json.Unmarshal(row, &e); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			if e.about(of, id) {
				if err := a.add(t, row, nil); err != nil {
					return err
				}
			}
		}
		if searched += len(p.Data); searched >= maxSearched && p.HasMore {
			return fmt.Errorf("there are more than %d events to search for the history: give a later history_since, or history=false for the object alone", maxSearched)
		}
		if !p.HasMore {
			a.History = &history{Position: p.position, Events: append([]json.RawMessage{}, a.rows...)}
			return nil
		}
		query.Set("cursor", p.NextCursor)
	}
}

// about says whether an event is about an object of a type, or of a client's or contractor's things.
func (e *event) about(of, id string) bool {
	shown := e.Data["object_type"]
	switch shown {
	case "credit_note": // is read as an invoice
		shown = "invoice"
	case "payout": // is read as a payment
		shown = "payment"
	}
	return e.Data[of+"_id"] == id || shown == of && e.Data["object_id"] == id
}
