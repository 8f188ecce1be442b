package copying

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

const (
	// mostDifferences bounds what a check holds of a list that differs.
	mostDifferences = 10_000
	// checkRounds is how often a check waits for another process to take changes over.
	checkRounds = 10
	checkPause  = time.Second
)

// Checked is what a check of one list found.
type Checked struct {
	List         string       `json:"list"`
	Rows         int          `json:"rows"`          // in the API
	Position     int64        `json:"position"`      // of the log, that the API showed
	CopyPosition int64        `json:"copy_position"` // that the copy shows
	Differences  []Difference `json:"differences"`
	More         bool         `json:"more"` // there are more differences
}

// Difference is a row of the copy that is not as the API has it.
type Difference struct {
	Row  string `json:"row"`
	What string `json:"what"`
	// Columns have other values in the copy. Those of a child table follow its name and a period; its
	// name alone says that it has more or fewer rows.
	Columns []string `json:"columns,omitempty"`
}

func (d Difference) String() string {
	text := d.Row + " " + d.What
	if len(d.Columns) > 0 {
		text += " in " + strings.Join(d.Columns, ", ")
	}
	return text
}

// What differs.
const (
	isMissing   = "is missing in the copy"
	isLeft      = "is not in the API"
	isDifferent = "differs"
)

// Check compares each row of the copy with the API's, by hashes of its columns. It changes
// nothing, so another process may keep the copy meanwhile. A row that changes during the check
// differs only if the copy has it in a form that the API did not show since the check began.
func (c *Copier) Check(ctx context.Context, each func(*Checked) error) error {
	lists, err := c.copied(ctx)
	if err != nil {
		return err
	}
	for _, one := range lists {
		var found *Checked
		err := c.cfg.Database.connected(ctx, func(w *writer) (err error) {
			found, err = c.checkList(ctx, w, one.list)
			return err
		})
		if err != nil {
			return fmt.Errorf("check %s: %w", one.list.name(), err)
		}
		if err := each(found); err != nil {
			return err
		}
	}
	return nil
}

// copied returns the lists that the key may read, and fails if the copy does not have them.
func (c *Copier) copied(ctx context.Context) (copied lists, err error) {
	described, now, err := c.askAPI(ctx)
	if err != nil {
		return nil, err
	}
	err = c.cfg.Database.connected(ctx, func(w *writer) error {
		states, err := w.states(ctx)
		if err != nil {
			return fmt.Errorf("there is no copy yet: %w", err)
		}
		for _, l := range described {
			if !now.mayRead(l) {
				continue
			}
			s, known := states[l.name()]
			switch {
			case !known || s.cursor == "":
				return fmt.Errorf("%s is not copied yet: run sync without --check first", l.name())
			case s.workspace != now.workspace:
				return otherWorkspace(s, now)
			case s.permissions != now.permissions:
				return fmt.Errorf("the copy was made with a key that has %s, and this one has %s: check with the same permissions", s.permissions, now.permissions)
			}
			copied = append(copied, &placed{l, &s})
		}
		return nil
	})
	return copied, err
}

// check is the check of one list.
type check struct {
	*writer

	list    *list
	found   *Checked
	batches int
	suspect map[string]*versions // by the keys of their rows
}

// versions are the hashes of a row that the API has shown since the check began. An empty one
// stands for a row that is not there.
type versions struct {
	shown map[string]bool
	last  string
}

func (v *versions) add(version string) { v.shown[version], v.last = true, version }

// noted is a table with the keys of the API's rows. The copy's rows are read by them, and rows that
// only the copy has are found.
const noted = "ledgerfeed_noted"

// notedIn is the column with the number of the batch.
const notedIn = "noted_in"

// keyNames are the columns of noted with the key, and the condition that they are those of a table.
func (k *check) keyNames(t *table) (columns []column, same string) {
	var equal []string
	for i := range k.list.root().key {
		c := column{fmt.Sprint("noted_", i+1), text}
		columns = append(columns, c)
		equal = append(equal, quoted(c.name)+" = "+quoted(t.columns[t.key[i]].name))
	}
	return columns, strings.Join(equal, " AND ")
}

func (c *Copier) checkList(ctx context.Context, w *writer, l *list) (*Checked, error) {
	k := &check{writer: w, list: l, found: &Checked{List: l.name(), Differences: []Difference{}}, suspect: map[string]*versions{}}
	if err := k.begin(ctx); err != nil {
		return nil, err
	}
	whole := c.source(l).Whole("")
	if err := k.compareAll(ctx, whole); err != nil {
		return nil, err
	}
	k.found.Position = whole.Position()
	cursor := whole.Cursor()
	for round := 1; ; round++ {
		have, position, err := k.suspectsInCopy(ctx)
		if err != nil {
			return nil, err
		}
		k.found.CopyPosition = position
		if cursor, err = k.newVersions(ctx, c.source(l).Whole(cursor)); err != nil {
			return nil, err
		}
		maps.DeleteFunc(k.suspect, func(row string, of *versions) bool { return of.shown[have[row]] })
		if len(k.suspect) == 0 || position >= k.found.Position || round == checkRounds {
			k.report(have)
			return k.found, nil
		}
		if !c.cfg.Pause(ctx, checkPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// begin makes the table of keys.
func (k *check) begin(ctx context.Context) error {
	columns, _ := k.keyNames(k.list.root())
	key := quotedAll(names(columns))
	for _, statement := range []string{
		"DROP TABLE IF EXISTS " + k.temporary(noted),
		"CREATE TEMPORARY TABLE " + noted + " (" + strings.ReplaceAll(key, ",", " text,") + " text, " + notedIn + " bigint)",
		"CREATE INDEX " + k.indexOf(noted, "key") + " (" + key + ")",
		"CREATE INDEX " + k.indexOf(noted, "batch") + " (" + notedIn + ")",
	} {
		if err := k.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// compareAll reads the whole list and finds the rows that the copy has otherwise.
func (k *check) compareAll(ctx context.Context, whole *client.Whole[client.RawRow]) error {
	err := inBatches(ctx, k.list, whole, func(b *batch) error {
		k.found.Rows += b.rows
		have, err := k.hashesInCopy(ctx, b.keys())
		if err != nil {
			return err
		}
		for row, want := range b.hashes() {
			if have[row] != want {
				k.suspectRow(row, want)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	root := k.list.root()
	_, same := k.keyNames(root)
	rest := k.table(root.name) + " WHERE " + removedAt + " IS NULL AND NOT EXISTS (SELECT 1 FROM " + k.temporary(noted) + " WHERE " + same + ")"
	return k.rowsOf(ctx, root, rest, nil, func(cells []cell) { k.suspectRow(keyOf(cells, root.key), "") })
}

func (k *check) suspectRow(row, version string) {
	if len(k.suspect) == mostDifferences {
		k.found.More = true
		return
	}
	k.suspect[row] = &versions{shown: map[string]bool{version: true}, last: version}
}

// hashesInCopy returns the hashes of the copy's rows with these keys, and notes the keys.
func (k *check) hashesInCopy(ctx context.Context, keys []cell) (map[string]string, error) {
	k.batches++
	columns, _ := k.keyNames(k.list.root())
	batch := cell(strconv.Itoa(k.batches))
	var note []cell
	for key := range slices.Chunk(keys, len(columns)) {
		note = append(append(note, key...), batch)
	}
	if err := k.insert(ctx, k.conn, k.temporary(noted), append(columns, column{notedIn, integer}), note); err != nil {
		return nil, fmt.Errorf("note what the API has: %w", err)
	}
	found := newHashes(k.list)
	for _, t := range k.list.tables {
		_, same := k.keyNames(t)
		from := k.temporary(noted) + " JOIN " + k.table(t.name) + " ON " + same + " WHERE " + notedIn + " = $1"
		if t.at == 0 {
			from += " AND " + removedAt + " IS NULL"
		} else {
			// A bare name would be that of the text that is selected, in PostgreSQL: the tenth row would
			// come before the second.
			var order []string
			for _, name := range t.keyColumns() {
				order = append(order, k.table(t.name)+"."+quoted(name))
			}
			from += " ORDER BY " + strings.Join(order, ", ")
		}
		if err := k.rowsOf(ctx, t, from, []any{k.batches}, func(cells []cell) { found.add(t, cells) }); err != nil {
			return nil, err
		}
	}
	return found.sums(), nil
}

// rowsOf reads rows of a table of the copy, as the API would show them.
func (k *check) rowsOf(ctx context.Context, t *table, from string, args []any, each func([]cell)) error {
	var shown []string
	for _, c := range t.columns {
		shown = append(shown, k.shown(c))
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := k.conn.QueryContext(ctx, "SELECT "+strings.Join(shown, ", ")+" FROM "+from, args...) //nolint:gosec // of names alone, which are quoted
	if err != nil {
		return fmt.Errorf("read %s: %w", t.name, err)
	}
	defer rows.Close()
	values := make([]*string, len(t.columns))
	targets := make([]any, len(values))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("read %s: %w", t.name, err)
		}
		cells := make([]cell, len(values))
		for i, v := range values {
			if v != nil {
				cells[i] = cell(*v)
			}
		}
		each(cells)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read %s: %w", t.name, err)
	}
	return nil
}

// suspectsInCopy reads the suspect rows of the copy again, and the position that it shows.
func (k *check) suspectsInCopy(ctx context.Context) (have map[string]string, position int64, err error) {
	states, err := k.states(ctx)
	if err != nil || len(k.suspect) == 0 {
		return nil, states[k.list.name()].position, err
	}
	var keys []cell
	for row := range k.suspect {
		for part := range strings.SplitSeq(row, keySeparator) {
			keys = append(keys, cell(part))
		}
	}
	have, err = k.hashesInCopy(ctx, keys)
	return have, states[k.list.name()].position, err
}

// newVersions reads what the API has changed meanwhile, and returns the next cursor.
func (k *check) newVersions(ctx context.Context, whole *client.Whole[client.RawRow]) (cursor string, err error) {
	err = inBatches(ctx, k.list, whole, func(b *batch) error {
		for row, version := range b.hashes() {
			if of := k.suspect[row]; of != nil {
				of.add(version)
			}
		}
		for key := range slices.Chunk(b.removed, len(k.list.root().key)) {
			if of := k.suspect[joinKey(key)]; of != nil {
				of.add("")
			}
		}
		return nil
	})
	return whole.Cursor(), err
}

// report says what differs.
func (k *check) report(have map[string]string) {
	for row, of := range k.suspect {
		d := Difference{Row: row, What: isDifferent}
		switch {
		case have[row] == "":
			d.What = isMissing
		case of.last == "":
			d.What = isLeft
		default:
			d.Columns = k.list.differing(have[row], of.last)
		}
		k.found.Differences = append(k.found.Differences, d)
	}
	slices.SortFunc(k.found.Differences, func(a, b Difference) int { return strings.Compare(a.Row, b.Row) })
}

// keySeparator stands between the parts of a row's key. No id has it.
const keySeparator = "/"

func joinKey(parts []cell) string {
	var key strings.Builder
	for i, part := range parts {
		if i > 0 {
			key.WriteString(keySeparator)
		}
		key.Write(part)
	}
	return key.String()
}

// keyOf is the key in a row of a table.
func keyOf(cells []cell, key []int) string {
	parts := make([]cell, len(key))
	for i, at := range key {
		parts[i] = cells[at]
	}
	return joinKey(parts)
}

// hashSize is the length in bytes of a column's hash.
const hashSize = 8

// hashes are the hashes of rows of a list with what belongs to them, by key: one for each column of
// the list's tables, so that a difference can be named.
type hashes struct {
	list *list
	rows map[string][]byte
}

func newHashes(l *list) *hashes { return &hashes{l, map[string][]byte{}} }

// add adds a row of a table. A row of the list comes before what belongs to it.
func (h *hashes) add(t *table, cells []cell) {
	key := keyOf(cells, t.key[:len(h.list.root().key)])
	if t.at == 0 {
		h.rows[key] = make([]byte, h.list.hashOf(nil))
	}
	row := h.rows[key]
	if row == nil {
		return // the list has no such row
	}
	row = row[h.list.hashOf(t):]
	var text []byte
	for i, c := range cells {
		if t.columns[i].name == removedAt {
			continue
		}
		hash := row[i*hashSize:][:hashSize]
		text = append(text[:0], hash...) // of the rows of a child table that came before
		text = binary.AppendVarint(text, int64(len(c)))
		if c == nil {
			text = append(text, 0xff) // is in no UTF-8
		}
		sum := sha256.Sum256(append(text, c...))
		copy(hash, sum[:])
	}
}

// hashOf is where the hashes of a table begin in those of a row, or, without a table, their end.
func (l *list) hashOf(t *table) (at int) {
	for _, one := range l.tables {
		if one == t {
			break
		}
		at += len(one.columns) * hashSize
	}
	return at
}

// differing names the columns whose hashes differ in two rows.
func (l *list) differing(a, b string) (names []string) {
	for _, t := range l.tables {
		from := l.hashOf(t)
		differs := func(column int) bool {
			at := from + column*hashSize
			return a[at:at+hashSize] != b[at:at+hashSize]
		}
		if t.at > 0 && differs(t.key[0]) {
			names = append(names, t.name)
			continue
		}
		for i, c := range t.columns {
			if !differs(i) {
				continue
			}
			name := c.name
			if t.at > 0 {
				name = t.name + "." + name
			}
			names = append(names, name)
		}
	}
	return names
}

func (h *hashes) sums() map[string]string {
	sums := make(map[string]string, len(h.rows))
	for key, row := range h.rows {
		sums[key] = string(row)
	}
	return sums
}

// hashes are the hashes of the batch's rows.
func (b *batch) hashes() map[string]string {
	h := newHashes(b.list)
	for i, t := range b.list.tables {
		for cells := range slices.Chunk(b.tables[i], len(t.columns)) {
			h.add(t, cells)
		}
	}
	return h.sums()
}
