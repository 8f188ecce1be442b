package readapi

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
)

func (c *call) answerEvents() error {
	r := c.route
	q := eventlog.FeedQuery{
		WorkspaceID: c.key.WorkspaceID,
		Since:       c.given.time(r.since),
		Oldest:      c.oldestKept(),
		Type:        c.given.get(r.kind),
		Payouts:     c.sight.pay,
		Limit:       c.given.limit(r.limit),
	}
	at := place{}
	if c.given.has(r.cursor) {
		at, q.Resumed = parsePlace(c.place()), true
		q.After = at.position
	}
	page, err := c.api.cfg.Feed.Page(c.ctx, q)
	if err != nil {
		return err
	}
	if page.Missed {
		return wrongParams([]paramError{{Field: "cursor", Message: "is too old: the event that follows it was published more than " +
			lengthOf(c.api.cfg.Retention) + " ago and is no longer kept, so events have been missed; begin anew with created_since"}})
	}
	body := getScratch()
	defer putScratch(body)
	body.WriteString(`{"data":[`)
	if !q.Resumed {
		at.position = page.Start()
	}
	for i := range page.Events {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(page.Events[i].JSON)
		at.position = page.Events[i].Position
	}
	c.rows = len(page.Events)
	appendEnd(body, page.More, c.api.cursors.seal(c.circumstances(), at.append(nil)))
	movedAt := "0"
	if !page.MovedAt.IsZero() {
		movedAt = strconv.FormatInt(page.MovedAt.UnixMicro(), 10)
	}
	c.write(body.Bytes(), feedVersion(rowsVersion(page.Visible, movedAt), page.Kept))
	return nil
}

// lengthOf is a time span in words.
func lengthOf(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 && d > day {
		return strconv.Itoa(int(d/day)) + " days"
	}
	return d.String()
}

func (c *call) answerEvent() error {
	if !isID(c.id) {
		return unknownID(words("Event"))
	}
	event, ok, err := c.api.cfg.Feed.Event(c.ctx, c.key.WorkspaceID, c.id, c.oldestKept(), c.sight.pay)
	if err != nil {
		return err
	}
	if !ok {
		return unknownID(words("Event"))
	}
	c.rows = 1
	c.write([]byte(event), "event") // an event never changes
	return nil
}

func isID(s string) bool { return domain.IsID(s) }

// words is a resource's name in a sentence: "TimeEntry" is a time entry.
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (r *resource) words() string { return words(r.name) }
