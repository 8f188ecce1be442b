package readapi

import (
	"strconv"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/eventlog/eventtree"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// answerEvents answers with a page of the feed.
func answerEvents(q *request) error {
	e := q.endpoint
	query := eventlog.FeedQuery{
		WorkspaceID: q.key.WorkspaceID,
		Since:       q.params.time(e.since),
		Oldest:      q.oldestKept(),
		Type:        q.params.get(e.enum),
		Pay:         q.visible.pay,
		Limit:       q.params.limit(e.limit),
	}
	if q.params.has(e.cursor) {
		query.After, _ = cutMark(q.position())
		query.Resumed = true
	}
	release, err := q.from.shares.take(q, q.key.WorkspaceID)
	if err != nil {
		return q.readError(err)
	}
	page, err := q.from.feed.Page(q, query)
	release()
	if err != nil {
		return err
	}
	movedAt := "0"
	if !page.MovedAt.IsZero() {
		movedAt = strconv.FormatInt(page.MovedAt.UnixMicro(), 10)
	}
	read := formatFeedVersion(formatRowsVersion(page.Visible, movedAt), page.Kept)
	if err := reached(q, read); err != nil {
		return err
	}
	if page.Diverged {
		return diverged("empty your copies of the lists and read them again without a cursor, and read events with created_since at a time before that; you know by their ids which you have handled")
	}
	if page.Missed {
		return answer.WrongCursor(answer.CodeEventsMissed, "is too old: the event that follows it was published more than "+
			texts.Duration(q.api.cfg.Retention)+" ago and is no longer kept, so events have been missed; start again with created_since")
	}
	body := q.api.answers.Buffer()
	defer q.api.answers.Release(body)
	body.WriteString(`{"data":[`)
	for i := range page.Events {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(page.Events[i].JSON)
	}
	q.rows = len(page.Events)
	if err := findIndex(q, &query, page); err != nil {
		return err
	}
	appendEnd(body, page.More, q.cursor(appendMark(nil, page.Next)))
	return q.answerWith(body.Bytes(), read)
}

// indexAt is a place in a feed: after the event at a mark, as keys with one sight see the feed.
type indexAt struct {
	workspaceID string
	sight       eventtree.Sight
	after       eventlog.Mark
}

// knownIndexes caches the tree index of the event that follows each place where a page ended, so
// that a follower's next page need not count again.
type knownIndexes = lru.Cache[indexAt, int64]

// mostKnownIndexes is how many places are kept: about as many as there are followers.
const mostKnownIndexes = 20_000

func newKnownIndexes() *knownIndexes {
	indexes, _ := lru.New[indexAt, int64](mostKnownIndexes) // fails only for sizes below 1
	return indexes
}

// findIndex sets EventIndex to the index of the page's first event in the tree that the key sees. A
// page filtered by type gets no index, because it leaves out events.
func findIndex(q *request, query *eventlog.FeedQuery, page *eventlog.FeedPage) error {
	q.out.EventIndex = answer.NoIndex
	if query.Type != "" {
		return nil
	}
	at := indexAt{query.WorkspaceID, sight(q), query.After}
	index, ok := q.from.indexes.Get(at)
	if !ok || !query.Since.IsZero() { // created_since can begin the page after the cursor
		if len(page.Events) == 0 {
			return nil
		}
		var err error
		if index, ok, err = eventtree.IndexOf(q, q.from.pool, query.WorkspaceID, at.sight, page.Events[0].Position); err != nil {
			return q.readError(err)
		}
		if q.lacks = !ok; q.lacks { // the tree catches up later without a new version of the feed
			return nil
		}
	}
	if at.after = page.Next; at.after.Chain != (eventlog.Mark{}).Chain { // a zero chain cannot tell one log from another
		q.from.indexes.Add(at, index+int64(len(page.Events)))
	}
	if len(page.Events) > 0 {
		q.out.EventIndex = index
	}
	return nil
}

// answerEvent answers with one event.
func answerEvent(q *request) error {
	label := q.endpoint.Resource.Label()
	if !domain.IsID(q.pathID) { // cannot exist, and may not be valid text for the database
		return answer.UnknownID(label)
	}
	event, visible, ok, err := q.from.feed.Event(q, q.key.WorkspaceID, q.pathID, q.oldestKept(), q.visible.pay)
	if err != nil {
		return err
	}
	read := version{name: event, position: visible}
	if err := reached(q, read); err != nil {
		return err
	}
	if !ok {
		return answer.UnknownID(label)
	}
	q.rows = 1
	// An event never changes, but after a restore another one can have the same id.
	return q.answerWith([]byte(event), read)
}
