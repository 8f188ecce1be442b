package check

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Log is the log as it stands at the end, by workspace and in the order of
// positions.
type Log struct {
	Entries map[string][]domain.Entry
	Public  map[string][]Event // the events of each workspace
	ids     map[key]*domain.Entry
}

// Event is a public entry.
type Event struct {
	Position int64
	ID, Type string
	JSON     string // the public form
	Pay      bool   // only readers with pay:read see it
}

// ReadLog reads the whole log.
func ReadLog(ctx context.Context, conn *pgx.Conn) (*Log, error) {
	rows, err := conn.Query(ctx, `
		SELECT e.workspace_id, e.position, e.id, e.type, e.created_at, e.data::text, coalesce(e.public_event, ''), e.chain, coalesce(d.value, ''), d.salt
		  FROM event_log e LEFT JOIN log_detached d USING (workspace_id, position) ORDER BY e.workspace_id, e.position`)
	if err != nil {
		return nil, fmt.Errorf("cannot read the log: %w", err)
	}
	l := &Log{Entries: map[string][]domain.Entry{}, Public: map[string][]Event{}}
	var (
		w, id, typ, data, public, value string
		position                        int64
		at                              time.Time
		chain, salt                     []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&w, &position, &id, &typ, &at, &data, &public, &chain, &value, &salt}, func() error {
		if len(chain) != sha256.Size {
			return errors.New("a chain value of a wrong length")
		}
		e := domain.Entry{
			WorkspaceID: w, Position: position, ID: id, Type: typ, CreatedAt: at.UTC(), Data: data, Chain: [sha256.Size]byte(chain), Value: value,
		}
		copy(e.Salt[:], salt)
		l.Entries[w] = append(l.Entries[w], e)
		if public != "" {
			l.Public[w] = append(l.Public[w], Event{position, id, typ, public, needsPay(typ, data)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the log: %w", err)
	}
	l.index()
	return l, nil
}

// needsPay is written apart from the program, whose entries have canonical data.
func needsPay(typ, data string) bool {
	return typ == "payout.paid" || (typ == "charge.created" || typ == "charge.deleted") && strings.Contains(data, `"billed_to_client":false`)
}

func (l *Log) index() {
	l.ids = map[key]*domain.Entry{}
	for w, entries := range l.Entries {
		for i := range entries {
			l.ids[key{w, entries[i].ID}] = &entries[i]
		}
	}
}

// Count is the number of entries.
func (l *Log) Count() (n int) {
	for _, entries := range l.Entries {
		n += len(entries)
	}
	return n
}

// Position of an entry by its id; 0: the log does not have it.
func (l *Log) Position(workspace, id string) int64 {
	if e := l.ids[key{workspace, id}]; e != nil {
		return e.Position
	}
	return 0
}

// CheckWhole checks that positions have no gap, that publish times never fall nor
// lie ahead of now by more than a producer's clock may, and the chain.
func (l *Log) CheckWhole(now time.Time, f *Findings) {
	for w, entries := range l.Entries {
		before := sha256.Sum256([]byte(w))
		var last time.Time
		for i := range entries {
			e := &entries[i]
			if want := int64(i + 1); e.Position != want {
				f.Add(RuleLog, "workspace %s has position %d where %d is expected", w, e.Position, want)
				break
			}
			if e.CreatedAt.Before(last) {
				f.Add(RuleLog, "workspace %s, position %d: published %v, before the entry before it, %v", w, e.Position, e.CreatedAt, last)
			}
			if e.CreatedAt.After(now.Add(clockTolerance)) {
				f.Add(RuleLog, "workspace %s, position %d: published %v, %v ahead of now", w, e.Position, e.CreatedAt, e.CreatedAt.Sub(now))
			}
			if chain := link(before, e); chain != e.Chain {
				f.Add(RuleLog, "workspace %s, position %d: the chain is %x, want %x", w, e.Position, e.Chain, chain)
			}
			if e.Value != "" && !strings.HasSuffix(e.Data, `,"~":"`+commitment(e)+`"}`) {
				f.Add(RuleLog, "workspace %s, position %d: %s does not commit to the value %s", w, e.Position, e.Data, e.Value)
			}
			before, last = e.Chain, e.CreatedAt
		}
	}
}

// clockTolerance is how far ahead of the database's clock a producer's may be
// (docs/contract/log.md, "An entry").
const clockTolerance = 5 * time.Minute

// link is the chain value of an entry, from the text of docs/contract/log.md,
// "Chain", alone.
func link(before [sha256.Size]byte, e *domain.Entry) [sha256.Size]byte {
	text := fmt.Sprintf("%d\n%s\n%s\n%s\n%s", e.Position, e.ID, e.Type, e.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z"), e.Data)
	return sha256.Sum256(append(before[:], text...))
}

// commitment computes the commitment to an entry's detached value, from the text of
// docs/contract/log.md, "Detached fields", alone.
func commitment(e *domain.Entry) string {
	text := "ledgerfeed/detached/1\n" + string(e.Salt[:]) + e.WorkspaceID + "\n" + e.ID + "\n" + e.Value
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// CheckHistory checks what producers were told against the log, and that it keeps
// the order of time: what was acknowledged before another append began stands before
// it.
func (l *Log) CheckHistory(h *History, f *Findings) {
	inOrder := map[string][]*Offer{}
	for _, o := range h.all() {
		e := l.ids[key{o.Workspace, o.ID}]
		switch {
		case e == nil && o.Acknowledged() && !o.Lost:
			f.Add(RuleAppended, "%s acknowledged %s of %s at %s (position %d), and the log does not have it", o.Producer, o.ID, o.Workspace, o.Ended.Format(time.TimeOnly), o.Position)
		case e == nil:
		case o.Refused != "":
			f.Add(RuleAppended, "%s was told that %s of %s is refused (%s), and the log has it at %d", o.Producer, o.ID, o.Workspace, o.Refused, e.Position)
		case e.Type != o.Type || e.Whole() != o.Data:
			f.Add(RuleAppended, "%s of %s is another entry than %s offered: %s %s", o.ID, o.Workspace, o.Producer, e.Type, e.Whole())
		case o.Acknowledged() && !o.Lost && o.Position > 0 && o.Position != e.Position:
			f.Add(RuleAppended, "%s of %s was acknowledged at position %d and stands at %d", o.ID, o.Workspace, o.Position, e.Position)
		case o.Acknowledged() && !o.Lost:
			inOrder[o.Workspace] = append(inOrder[o.Workspace], o)
		}
	}
	for _, offers := range inOrder {
		l.checkOrder(offers, f)
	}
}

// checkOrder goes through acknowledged appends of a workspace by the time they began,
// with the highest position of the appends that had ended by then.
func (l *Log) checkOrder(offers []*Offer, f *Findings) {
	began := slices.SortedFunc(slices.Values(offers), func(a, b *Offer) int { return a.Began.Compare(b.Began) })
	ended := slices.SortedFunc(slices.Values(offers), func(a, b *Offer) int { return a.Ended.Compare(b.Ended) })
	var highest *Offer
	next := 0
	for _, o := range began {
		for next < len(ended) && ended[next].Ended.Before(o.Began) {
			if highest == nil || l.at(ended[next]) > l.at(highest) {
				highest = ended[next]
			}
			next++
		}
		if highest != nil && l.at(highest) > l.at(o) {
			f.Add(RuleOrder, "%s of %s, begun after %s was acknowledged, stands at %d before that one's %d", o.ID, o.Workspace, highest.ID, l.at(o), l.at(highest))
		}
	}
}

func (l *Log) at(o *Offer) int64 { return l.ids[key{o.Workspace, o.ID}].Position }

// CheckOutbox checks that the rows that producers wrote in the transactions of their
// entries exist if and only if the entries do.
func (l *Log) CheckOutbox(h *History, rows map[string]map[string]bool, f *Findings) {
	for _, o := range h.all() {
		if !o.Outbox {
			continue
		}
		entry, row := l.ids[key{o.Workspace, o.ID}] != nil, rows[o.Workspace][o.ID]
		if entry != row {
			f.Add(RuleOutbox, "%s of %s: entry %t, the producer's row %t", o.ID, o.Workspace, entry, row)
		}
	}
}
