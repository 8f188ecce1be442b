package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// record is the arguments of webhook_record: see migrations/00007_delivery.sql.
type record struct {
	jobs []*job // those the attempts are of

	attempts struct {
		w, h       []string
		pos        []int64
		made       []time.Time
		event, typ []string
		n, before  []int
		state      []string
		next       []*time.Time
		epoch      []int
		attempt    []string
	}
	cursors struct {
		w, h           []string
		epoch, version []int
		pos            []int64
		replay         []*int64
	}
	health struct {
		w, h   []string
		epoch  []int
		since  []*time.Time
		marks  []string
		warned []int
	}
	counts struct {
		w, h    []string
		hour    []time.Time
		outcome []string
		n       []int64
	}
}

func (r *record) empty() bool {
	return len(r.attempts.w) == 0 && len(r.cursors.w) == 0 && len(r.health.w) == 0 && len(r.counts.w) == 0
}

func (r *record) addAttempt(j *job) {
	a := &r.attempts
	r.jobs = append(r.jobs, j)
	a.w, a.h = append(a.w, j.lane.key.workspaceID), append(a.h, j.lane.key.webhookID)
	a.pos, a.made = append(a.pos, j.position), append(a.made, j.made)
	a.event, a.typ = append(a.event, j.eventID), append(a.typ, j.eventType)
	a.n, a.before = append(a.n, j.number()), append(a.before, j.before)
	a.state = append(a.state, string(j.state))
	var next *time.Time
	if j.state == Pending {
		next = &j.next
	}
	a.next, a.epoch = append(a.next, next), append(a.epoch, j.hook.epoch)
	a.attempt = append(a.attempt, string(appendAttempt(nil, &j.attempt)))
}

func (r *record) addCursor(l *lane, done, replay int64) {
	c := &r.cursors
	c.w, c.h = append(c.w, l.key.workspaceID), append(c.h, l.key.webhookID)
	c.epoch, c.version = append(c.epoch, l.hook.epoch), append(c.version, l.hook.version)
	c.pos = append(c.pos, done)
	var at *int64
	if replay > 0 {
		at = &replay
	}
	c.replay = append(c.replay, at)
}

func (r *record) addHealth(l *lane) {
	f := &r.health
	f.w, f.h = append(f.w, l.key.workspaceID), append(f.h, l.key.webhookID)
	f.epoch, f.warned = append(f.epoch, l.hook.epoch), append(f.warned, l.health.Warned)
	var since *time.Time
	if t := l.health.FailingSince; !t.IsZero() {
		since = &t
	}
	f.since = append(f.since, since)
	var marks strings.Builder
	marks.WriteByte('{')
	for i, m := range l.health.Marks {
		if i > 0 {
			marks.WriteByte(',')
		}
		marks.WriteString(strconv.FormatInt(m.UnixMilli(), 10))
	}
	marks.WriteByte('}')
	f.marks = append(f.marks, marks.String())
}

func (r *record) addCount(l *lane, c count, n int64) {
	t := &r.counts
	t.w, t.h = append(t.w, l.key.workspaceID), append(t.h, l.key.webhookID)
	t.hour, t.outcome, t.n = append(t.hour, c.hour), append(t.outcome, string(c.outcome)), append(t.n, n)
}

// appendAttempt is the form in which an attempt is kept, and shown to users.
func appendAttempt(b []byte, a *Attempt) []byte {
	b = append(b, `{"at":"`...)
	b = domain.AppendTime(b, a.At)
	b = append(b, `","status":`...)
	if a.Status == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(a.Status), 10)
	}
	b = append(b, `,"error":`...)
	b = appendText(b, a.Error)
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendInt(b, a.Duration.Milliseconds(), 10)
	b = append(b, `,"answer":`...)
	return append(appendText(b, a.Answer), '}')
}

func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return append(b, "null"...) // not reached: a string always has a form
	}
	return append(b, text...)
}

const recordSQL = `SELECT webhook_record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::text[]::jsonb[],
	$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)`

// record writes it all down, in one statement. Calling it again after an error
// is safe. The error satisfies leaseOver when nothing was written because this
// process no longer holds its webhooks.
func (r *rows) record(ctx context.Context, d *record) error {
	a, c, f, n := &d.attempts, &d.cursors, &d.health, &d.counts
	_, err := r.pool.Exec(ctx, recordSQL, r.self,
		a.w, a.h, a.pos, a.made, a.event, a.typ, a.n, a.before, a.state, a.next, a.epoch, a.attempt,
		c.w, c.h, c.epoch, c.version, c.pos, c.replay,
		f.w, f.h, f.epoch, f.since, f.marks, f.warned,
		n.w, n.h, n.hour, n.outcome, n.n)
	if err != nil {
		return fmt.Errorf("record attempts: %w", err)
	}
	return nil
}
