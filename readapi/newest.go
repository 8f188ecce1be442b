package readapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Page is a part of a list for people: the rows that changed last come first.
type Page struct {
	Status int
	Rows   []Ranked

	// Newer and Older are the places of the neighbouring pages; nil: there is none.
	Newer, Older *Place

	// Faults are what is wrong with the query if Status is 400.
	Faults []answer.ParamError
}

// Ranked is a row with its place in the list.
type Ranked struct {
	Place
	JSON []byte // as the list shows it
}

// Place is beside a row of a list.
type Place struct {
	Position int64  // of the row
	ID       string // of the row
	Newer    bool   // the page has the rows before the place, which changed later; otherwise those after it
}

// turn is what a Page is to have.
type turn struct {
	at       Place
	column   string // an indexed column that must have the value; empty: there is no such condition
	value    string
	name     string // a regular expression that a party's name must match; empty: any name will do
	document string // text that the invoice must contain; empty: any invoice will do
	page     *Page
}

// turnKey is the context key of a turn: the list is read for a Page.
type turnKey struct{}

// Page reads a page of a list: the first one, or the one at a place. The query of ask.Path may have
// the filters of the list and a limit. A Status other than 200 and 400 means that the list could not be
// read in time.
func (r *Reader) Page(ctx context.Context, ask Ask, at *Place) (*Page, error) {
	t := &turn{}
	if at != nil {
		t.at = *at
	}
	return r.page(ctx, ask, t)
}

// With reads the rows of a list, without filters, that have a value in a column: the id, an invoice's
// number, the contractor_id of payments, or the invoice_id of charges, payments and time entries. It
// reads as Page does, and looks at all rows with the value each time.
func (r *Reader) With(ctx context.Context, ask Ask, column, value string, at *Place) (*Page, error) {
	t := &turn{column: column, value: value}
	if at != nil {
		t.at = *at
	}
	return r.page(ctx, ask, t)
}

// searchDepth is how many rows a search by a name or a document's number looks at, the last
// changed ones first.
const searchDepth = 20_000

// Named reads the clients or contractors whose name has something like a text in it (texts.Fold), as
// Page does.
func (r *Reader) Named(ctx context.Context, ask Ask, text string) (*Page, error) {
	return r.page(ctx, ask, &turn{name: texts.Pattern(inJSON(text))})
}

// Numbered reads the invoices that have a document with a number, as Page does.
func (r *Reader) Numbered(ctx context.Context, ask Ask, number string) (*Page, error) {
	return r.page(ctx, ask, &turn{document: `"number":"` + inJSON(number) + `"`})
}

// inJSON returns a text as it stands in rows, between quotation marks.
func inJSON(text string) string {
	quoted := jsonform.AppendString(nil, text)
	return string(quoted[1 : len(quoted)-1])
}

// AskBases asks for rows by their ids.
type AskBases struct {
	WorkspaceID string
	Pay         bool // include rows that are shown only with pay:read
	Resource    *route.Resource
	IDs         []string
}

// Bases returns the rows that are shown, by their ids. Each is a JSON object with the fields that every
// key sees.
func (r *Reader) Bases(ctx context.Context, ask AskBases) (map[string]string, error) {
	of := ask.Resource
	shown := ""
	if of.Shown != "" {
		shown += " AND " + of.Shown
	}
	if of.ShownWithoutPay != "" && !ask.Pay {
		shown += " AND " + of.ShownWithoutPay
	}
	bases := map[string]string{}
	err := r.Beside(ctx, ask.WorkspaceID, 0, func(ctx context.Context, pool pg.DB) error {
		clear(bases)
		var id, base string
		err := pg.ForEach(ctx, pool, `
			SELECT p.id, p.base || '}' FROM unnest($2::text[]) AS given (id)
			 CROSS JOIN LATERAL (SELECT id, base FROM `+of.Table+` WHERE workspace_id = $1 AND id = given.id`+shown+` OFFSET 0) p`,
			[]any{ask.WorkspaceID, ask.IDs}, []any{&id, &base}, func() error {
				bases[id] = base
				return nil
			})
		if err != nil {
			return fmt.Errorf("read rows by their ids: %w", err)
		}
		return nil
	})
	return bases, err
}

func (r *Reader) page(ctx context.Context, ask Ask, t *turn) (*Page, error) {
	t.page = &Page{}
	if t.at == (Place{}) { // the first page
		t.at.Position = math.MaxInt64
	}
	read, err := r.Get(context.WithValue(ctx, turnKey{}, t), ask)
	if err != nil {
		return nil, err
	}
	t.page.Status = read.Status
	var problem struct {
		Errors []answer.ParamError `json:"errors"`
	}
	if json.Unmarshal(read.Body, &problem) == nil {
		t.page.Faults = problem.Errors
	}
	return t.page, nil
}

// turnArguments is how many arguments turnStatement has before those of the filters: workspace,
// position, id and limit.
const turnArguments = 4

// turnStatement returns the statement of a Page. Its plan must not depend on statistics, as that of a
// page of the API.
func turnStatement(r *route.Resource, filters []filter, key statementKey, t *turn) string {
	columns := columnsOf(r, key.visible)
	conditions := conditionsOf(r, key.visible) + filterConditions(filters, key, turnArguments) + daysConditions(r, key, turnArguments)
	direction, beside := " DESC", " < "
	if t.at.Newer {
		direction, beside = "", " > "
	}
	inOrder := " ORDER BY position" + direction + ", id" + direction
	limit := " LIMIT " + strconv.Itoa(route.MaxLimit+1)
	conditions = " AND (position, id)" + beside + "($2, $3)" + conditions
	page := `SELECT position, id, ` + selectionOf(r, key.visible) + ` FROM ` + r.Table + ` WHERE workspace_id = $1`
	const value = "$5" // after turnArguments; a turn with it has no filters
	switch {
	case t.column != "":
		// The order inside leaves no other plan than the index of the column.
		page = `SELECT * FROM (` + page + ` AND ` + t.column + ` BETWEEN ` + value + ` AND ` + value + conditions + ` ORDER BY ` + t.column + `) listed` + inOrder + limit
	case t.name != "":
		after := r.Fields[slices.IndexFunc(r.Fields, func(f jsonform.FieldDescription) bool { return f.Name == "name" })+1].Name
		name := `split_part(split_part(base, ',"name":', 2), ',"` + after + `":', 1)`
		page = searched(page+conditions+inOrder, columns) + name + ` ~ ` + value + inOrder + limit
	case t.document != "":
		page = searched(page+conditions+inOrder, columns) + `strpos(base, ` + value + `) > 0` + inOrder + limit
	case byMonths(filters, key):
		page = ofMonths(r, r.Table, "position, id, "+selectionOf(r, key.visible), conditions, direction, limit, daysArguments(key, turnArguments)) + inOrder
	default:
		page += conditions + inOrder + limit
	}
	return "(" + versionRow(columns, noLog) + `)
	UNION ALL
	(SELECT position, id, ` + columns + ` FROM (` + page + `) page LIMIT $4)`
}

// searched begins a statement that searches in the newest rows; its condition follows.
func searched(rows, columns string) string {
	return `SELECT position, id, ` + columns + ` FROM (` + rows + ` LIMIT ` + strconv.Itoa(searchDepth) + `) newest WHERE `
}

// answerTurn reads a Page.
func answerTurn(q *request, t *turn) error {
	key, filtered := q.endpoint.keyOf(q)
	size := q.params.limit(q.endpoint.limit)
	args := append([]any{q.key.WorkspaceID, t.at.Position, t.at.ID, size + 1}, filtered...)
	if value := cmp.Or(t.value, t.name, t.document); value != "" {
		args = append(args, value)
	}
	rows, v, err := q.queryVersion(turnStatement(q.endpoint.Resource, q.endpoint.filters, key, t), args...)
	if err != nil {
		return err
	}
	defer rows.close()
	t.page.Rows = nil // a read from the Copy may have been given up
	for {
		position, values, ok, err := rows.next()
		if err != nil {
			return q.readError(err)
		}
		if !ok {
			break
		}
		body := q.api.answers.Buffer()
		appendRow(body, values[columnFragments:])
		t.page.Rows = append(t.page.Rows, Ranked{Place{Position: position, ID: string(values[columnID])}, slices.Clone(body.Bytes())})
		q.api.answers.Release(body)
	}
	t.page.turn(t.at, size)
	q.out.OK(answer.Encoded{Encoding: answer.Identity, Body: []byte("{}")}, q.tag(v))
	return nil
}

// turn cuts the rows that were read to a page of some size, puts them in the order of people, and finds
// the places of its neighbours.
func (p *Page) turn(at Place, size int) {
	more := len(p.Rows) > size
	if more {
		p.Rows = p.Rows[:size]
	}
	if at.Newer {
		slices.Reverse(p.Rows)
	}
	p.Newer, p.Older = nil, nil
	if len(p.Rows) == 0 {
		return
	}
	if (at.Newer && more) || (!at.Newer && at.Position < math.MaxInt64) {
		p.Newer = &Place{p.Rows[0].Position, p.Rows[0].ID, true}
	}
	if at.Newer || more {
		last := p.Rows[len(p.Rows)-1]
		p.Older = &Place{last.Position, last.ID, false}
	}
}
