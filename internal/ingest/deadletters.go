// This file reads dead letters, appends them anew and deletes them: for the commands, for status and
// doctor, and for the metric.

package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// MostWaiting bounds what counting dead letters costs: so many stand for more, too.
const MostWaiting = 1000

// Counted writes a count of Waiting.
func Counted(n int64) string {
	if n >= MostWaiting {
		return "1,000 or more"
	}
	return strconv.FormatInt(n, 10)
}

// DeadLetters are the messages of a source that the log has refused. Until ingest has run there are
// none.
type DeadLetters interface {
	// Name tells the source from others. It has no password.
	Name() string

	// Waiting counts the letters, up to MostWaiting.
	Waiting(ctx context.Context) (int64, error)

	// Letters returns letters from an id on, oldest first. There may be fewer than limit before the
	// last one, because letters may be large; none: there are no more.
	Letters(ctx context.Context, from LetterID, limit int) ([]Letter, error)

	// Newest returns the newest letter; nil: there is none.
	Newest(ctx context.Context) (*Letter, error)

	// Settle deletes some letters and gives others the reasons in changed. After an error it may have
	// done a part of that.
	Settle(ctx context.Context, gone []LetterID, changed []Letter) error
}

// LetterID is where a letter is: its transaction and offset in PostgreSQL, or 0 and its offset in MySQL
// or its sequence in a stream.
type LetterID [2]uint64

func (id LetterID) String() string {
	if id[0] == 0 {
		return strconv.FormatUint(id[1], 10)
	}
	return fmt.Sprintf("%d-%d", id[0], id[1])
}

// Next is the first id behind id.
func (id LetterID) Next() LetterID { return LetterID{id[0], id[1] + 1} }

func (id LetterID) compare(other LetterID) int { return slices.Compare(id[:], other[:]) }

// ParseLetterID reads what String writes.
func ParseLetterID(text string) (LetterID, error) {
	first, second, two := strings.Cut(text, "-")
	if !two {
		first, second = "0", text
	}
	a, err := strconv.ParseUint(first, 10, 63)
	b, errB := strconv.ParseUint(second, 10, 63)
	if err != nil || errB != nil || b == 0 {
		return LetterID{}, fmt.Errorf("%q is no dead letter: want an id as ledgerfeed ingest dead list shows it, such as 7431-12 of an outbox in PostgreSQL, or 12", text)
	}
	return LetterID{a, b}, nil
}

// Letter is a dead letter.
type Letter struct {
	ID       LetterID
	At       time.Time // when it became one
	Reason   string    // why the log refuses the message
	Cut      string    // what of the message the letter leaves out; empty: nothing
	Sequence string    // of the message in its stream; empty: it is from an outbox
	Message  Message
}

// Entry returns the workspace and the id that the message gives its entry; empty: they cannot be read.
func (l *Letter) Entry() (workspaceID, id string) {
	var e struct {
		WorkspaceID string `json:"workspace_id"`
		ID          string `json:"id"`
	}
	_ = json.Unmarshal(l.Message.Payload, &e) // it may be anything
	for _, text := range []*string{&e.WorkspaceID, &e.ID} {
		if !domain.IsID(*text) { // whatever else it is, it is not shown
			*text = ""
		}
	}
	return e.WorkspaceID, e.ID
}

// Find returns the letters with some ids, oldest first.
func Find(ctx context.Context, of DeadLetters, ids []LetterID) ([]Letter, error) {
	slices.SortFunc(ids, LetterID.compare)
	var list []Letter
	for _, id := range slices.Compact(ids) {
		found, err := of.Letters(ctx, id, 1)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 || found[0].ID != id {
			return nil, fmt.Errorf("%s has no dead letter %s", of.Name(), id)
		}
		list = append(list, found...)
	}
	return list, nil
}

// Pages calls do with all letters up to one, oldest first. It keeps only some of them in memory.
func Pages(ctx context.Context, of DeadLetters, through LetterID, do func([]Letter) error) error {
	for from := (LetterID{}); ; {
		page, err := of.Letters(ctx, from, batchSize)
		if err != nil {
			return err
		}
		page = slices.DeleteFunc(page, func(l Letter) bool { return l.ID.compare(through) > 0 })
		if len(page) == 0 {
			return nil
		}
		from = page[len(page)-1].ID.Next()
		if err := do(page); err != nil {
			return err
		}
	}
}

// Retried is what became of letters that were appended anew.
type Retried struct {
	Appended, Skipped int
	Kept              []Letter // which the log still refuses, which leave something out, or which are outdated
}

// Retry appends the messages of letters as if the source had just brought them. It deletes the letters
// whose entries are in the log then. The others stay, with their new reasons. It can be repeated after
// an error or a crash: the log skips entries that it has. It is not for an Ingest that runs.
//
// A letter whose object has a newer entry stays too, unless force: appended now, it could put old values
// over new ones.
func (i *Ingest) Retry(ctx context.Context, letters []Letter, force bool) (r Retried, err error) {
	var outdated map[LetterID]string
	if !force {
		if outdated, err = i.appender.outdated(ctx, letters); err != nil {
			return r, err
		}
	}
	var b Batch
	for k := range letters {
		if l := &letters[k]; l.Cut == "" && outdated[l.ID] == "" {
			b.Messages = append(b.Messages, l.Message)
		}
	}
	done, err := i.appender.append(ctx, &b)
	if err != nil {
		return r, err
	}
	refused := map[*message.Message]string{}
	for _, d := range done.dead {
		refused[d.Message.Message] = short(d.Reason)
	}
	var (
		gone    []LetterID
		changed []Letter
	)
	for _, l := range letters {
		if reason := outdated[l.ID]; reason != "" {
			l.Reason = reason
			r.Kept = append(r.Kept, l)
			continue
		}
		reason, again := refused[l.Message.Message]
		if !again && l.Cut == "" {
			gone = append(gone, l.ID)
			i.appender.remember(&l)
			continue
		}
		if again && reason != l.Reason {
			l.Reason = reason
			changed = append(changed, l)
		}
		r.Kept = append(r.Kept, l)
	}
	r.Appended, r.Skipped = done.appended, done.skipped
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	return r, i.source.Settle(finish, gone, changed)
}

// sameTime is how much earlier than a letter an entry may have been appended that came after its message:
// of what is read together, the entries are appended first.
const sameTime = time.Minute

// about is the object of an entry.
type about struct{ object, id string }

func aboutOf(e *domain.Entry) about {
	object, id := e.Object()
	return about{object, id}
}

// remember notes that a letter's entry was appended by Retry.
func (a *appender) remember(l *Letter) {
	if len(a.retried) >= mostKnown {
		clear(a.retried) // then a letter may stay that need not
	}
	if it, err := a.readItem(0, &l.Message); err == nil {
		a.retried[entryKey{it.draft.WorkspaceID, it.draft.ID}] = true
	}
}

// outdated finds the letters whose objects have newer entries in the log, and says what that means.
func (a *appender) outdated(ctx context.Context, letters []Letter) (map[LetterID]string, error) {
	type candidate struct {
		*Letter

		of    about
		entry string
	}
	byOwner := map[string][]candidate{}
	for k := range letters {
		it, err := a.readItem(k, &letters[k].Message)
		if err != nil || it.place != nil {
			continue // the log refuses it, or has a place for it
		}
		e := it.draft.Entry()
		byOwner[e.WorkspaceID] = append(byOwner[e.WorkspaceID], candidate{&letters[k], aboutOf(&e), e.ID})
	}
	outdated := map[LetterID]string{}
	for workspaceID, list := range byOwner {
		newest := map[about]int64{} // positions
		oldest := list[0].At
		for _, c := range list {
			newest[c.of] = 0
			if c.At.Before(oldest) {
				oldest = c.At
			}
		}
		from, err := a.log.AppendedSince(ctx, workspaceID, oldest.Add(-sameTime))
		if err != nil {
			return nil, err
		}
		err = a.log.Walk(ctx, workspaceID, from-1, func(e *domain.Entry) error {
			if of := aboutOf(e); of.id != "" && !a.retried[entryKey{workspaceID, e.ID}] {
				if _, wanted := newest[of]; wanted {
					newest[of] = e.Position
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			position := newest[c.of]
			if position == 0 {
				continue
			}
			from, err := a.log.AppendedSince(ctx, workspaceID, c.At.Add(-sameTime))
			if err != nil {
				return nil, err
			}
			known, err := a.log.PositionOf(ctx, workspaceID, c.entry)
			if err != nil {
				return nil, err
			}
			if position >= from && known == 0 {
				outdated[c.ID] = fmt.Sprintf("%s %s has a newer entry, at position %d: appended now, this one could put old values over new ones; drop it, or retry it with --force", c.of.object, c.of.id, position)
			}
		}
	}
	return outdated, nil
}

// Name is of DeadLetters.
func (s *OutboxSource) Name() string {
	in := s.pool.Config().ConnConfig
	return in.Host + "/" + in.Database + "/watermill_" + s.topic
}

func (s *OutboxSource) deadTable() string { return deadSchema().MessagesTable(s.topic + deadSuffix) }

// Waiting is of DeadLetters.
func (s *OutboxSource) Waiting(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM `+s.deadTable()+` LIMIT $1) AS dead`, MostWaiting).Scan(&n)
	return n, s.deadError("count", err)
}

// deadError says what could not be done. A missing table is no error.
func (s *OutboxSource) deadError(what string, err error) error {
	if of, ok := errors.AsType[*pgconn.PgError](err); err == nil || ok && of.Code == "42P01" {
		return nil
	}
	return cmp.Or(explain(err), fmt.Errorf("%s messages of the outbox: %w", what, err))
}

// Letters is of DeadLetters.
func (s *OutboxSource) Letters(ctx context.Context, from LetterID, limit int) ([]Letter, error) {
	return s.letters(ctx, `WHERE (transaction_id, "offset") >= ($1, $2) ORDER BY transaction_id, "offset" LIMIT $3`, from[0], from[1], limit)
}

// Newest is of DeadLetters.
func (s *OutboxSource) Newest(ctx context.Context) (*Letter, error) {
	list, err := s.letters(ctx, `ORDER BY transaction_id DESC, "offset" DESC LIMIT 1`)
	if len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func (s *OutboxSource) letters(ctx context.Context, which string, args ...any) (list []Letter, err error) {
	rows, err := s.pool.Query(ctx, `SELECT transaction_id, "offset", created_at::timestamptz, uuid, payload, metadata FROM `+s.deadTable()+" "+which, args...)
	if err != nil {
		return nil, s.deadError("read", err)
	}
	defer rows.Close()
	list, err = outboxLetters(rows)
	return list, s.deadError("read", err)
}

// outboxLetters reads letters of an outbox until there are enough for the memory: their ids, times, UUIDs,
// payloads and metadata.
func outboxLetters(rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
},
) (list []Letter, err error) {
	for bytes := 0; bytes < batchBytes && rows.Next(); {
		var (
			l                 Letter
			uuid              string
			payload, metadata []byte
			of                map[string]string
		)
		if err := rows.Scan(&l.ID[0], &l.ID[1], &l.At, &uuid, &payload, &metadata); err != nil {
			return nil, err
		}
		_ = json.Unmarshal(metadata, &of) // a letter in another form has no reason
		l.Reason, l.Cut = of[MetadataReason], of[MetadataCut]
		l.Message = Message{Message: message.NewMessage(uuid, payload), Headers: []byte(of[MetadataHeaders])}
		if len(l.Message.Headers) > 0 {
			if err := json.Unmarshal(l.Message.Headers, &l.Message.Metadata); err != nil {
				l.Message.Fault = fmt.Errorf("the message cannot be read: %w", err)
			}
		}
		list, bytes = append(list, l), bytes+len(payload)+len(metadata)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

// metadata is the column of this name of a letter of an outbox.
func (l *Letter) metadata() ([]byte, error) {
	return json.Marshal((&Dead{&l.Message, l.Reason}).Letter().Metadata) //nolint:wrapcheck // strings alone
}

// Settle is of DeadLetters. It does all or nothing.
func (s *OutboxSource) Settle(ctx context.Context, gone []LetterID, changed []Letter) error {
	var b pgx.Batch
	for _, id := range gone {
		b.Queue(`DELETE FROM `+s.deadTable()+` WHERE transaction_id = $1 AND "offset" = $2`, id[0], id[1])
	}
	for i := range changed {
		l := &changed[i]
		metadata, err := l.metadata()
		if err != nil {
			return s.deadError("change", err)
		}
		b.Queue(`UPDATE `+s.deadTable()+` SET metadata = $3 WHERE transaction_id = $1 AND "offset" = $2`, l.ID[0], l.ID[1], metadata)
	}
	return s.deadError("change", s.pool.SendBatch(ctx, &b).Close())
}

// Name is of DeadLetters.
func (s *StreamSource) Name() string { return s.target.Stream + "/" + s.target.Subject }

func (s *StreamSource) deadSubject() string { return s.target.Subject + streamDeadSuffix }

// graveyard is the stream of the dead letters.
func (s *StreamSource) graveyard(ctx context.Context) (stream jetstream.Stream, err error) {
	if !s.conn.IsConnected() {
		return nil, s.away()
	}
	name, err := s.js.StreamNameBySubject(ctx, s.deadSubject())
	if err == nil {
		stream, err = s.js.Stream(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the stream of dead letters, with the subject %s: %w", s.deadSubject(), err)
	}
	return stream, nil
}

// Waiting is of DeadLetters.
func (s *StreamSource) Waiting(ctx context.Context) (int64, error) {
	stream, err := s.graveyard(ctx)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.deadSubject()))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return int64(min(info.State.Subjects[s.deadSubject()], MostWaiting)), nil
}

// Letters is of DeadLetters. It asks for each message, so that it needs no consumer.
func (s *StreamSource) Letters(ctx context.Context, from LetterID, limit int) (list []Letter, err error) {
	stream, err := s.graveyard(ctx)
	if err != nil || from[0] > 0 { // the id of an outbox's letter
		return nil, err
	}
	for bytes, at := 0, max(from[1], 1); len(list) < limit && bytes < batchBytes; {
		raw, err := stream.GetMsg(ctx, at, jetstream.WithGetMsgSubject(s.deadSubject()))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
		list, bytes, at = append(list, s.letter(raw)), bytes+len(raw.Data), raw.Sequence+1
	}
	return list, nil
}

// Newest is of DeadLetters.
func (s *StreamSource) Newest(ctx context.Context) (*Letter, error) {
	stream, err := s.graveyard(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := stream.GetLastMsgForSubject(ctx, s.deadSubject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the newest dead letter: %w", err)
	}
	l := s.letter(raw)
	return &l, nil
}

func (s *StreamSource) letter(raw *jetstream.RawStreamMsg) Letter {
	var headers nats.Header
	of := raw.Header
	_ = json.Unmarshal([]byte(of.Get(MetadataHeaders)), &headers) // there may be none
	l := Letter{ID: LetterID{0, raw.Sequence}, At: raw.Time, Reason: of.Get(MetadataReason), Cut: of.Get(MetadataCut), Sequence: of.Get(metadataSequence)}
	l.Message = s.message(of.Get(MetadataSubject), headers, raw.Data, l.Sequence)
	l.Message.UUID = cmp.Or(l.Message.UUID, of.Get(wmnats.WatermillUUIDHdr))
	return l
}

// Settle is of DeadLetters. A letter with a new reason is published before the old one is deleted, and
// without an id: the stream must not take it for one that it had before.
func (s *StreamSource) Settle(ctx context.Context, gone []LetterID, changed []Letter) error {
	stream, err := s.graveyard(ctx)
	if err != nil {
		return err
	}
	for i := range changed {
		l := &changed[i]
		if err := s.bury(ctx, &Dead{&l.Message, l.Reason}); err != nil {
			return err
		}
		gone = append(gone, l.ID)
	}
	for _, id := range gone {
		if err := stream.DeleteMsg(ctx, id[1]); err != nil {
			return fmt.Errorf("delete the dead letter %s: %w", id, err)
		}
	}
	return nil
}
