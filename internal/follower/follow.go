package follower

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

const (
	// idleWait is how long the service is asked to hold its answer while there is nothing new.
	idleWait = 25 * time.Second
	// proofWait is the same for the checkpoint of events that were just published, which follows
	// within about a second.
	proofWait = 5 * time.Second
	// firstLook is the pause before asking again for such a checkpoint if the service does not hold
	// its answers. It doubles up to longestLook.
	firstLook   = 250 * time.Millisecond
	longestLook = 5 * time.Second
	// againWait is the pause before an empty page is read again.
	againWait = time.Second
)

// Config configures a Follower.
type Config struct {
	Client *Client
	Place  Place
	State  *State // as loaded from Place
	Output Output
	Tree   *Tree // nil: nothing is checked
	Once   bool  // end when there is nothing more

	// ProofTimeout is how long a checkpoint may lag behind the feed, and the feed behind the signed
	// tree.
	ProofTimeout time.Duration
	Clock        func() time.Time
	Pause        func(ctx context.Context, d time.Duration) bool // false: ctx ended
	Logger       *slog.Logger

	// Reached, if not nil, is called when the end of the feed is reached for the first time, with
	// what has been handed on and proven.
	Reached func(*Report)
}

// Report is what a follower has done.
type Report struct {
	Events int64 `json:"events"` // handed on, over all runs

	// With a Tree.
	Origin   string   `json:"origin,omitempty"`
	Proven   *Range   `json:"proven,omitempty"`
	Size     int64    `json:"size,omitempty"` // of the newest checkpoint
	Root     string   `json:"root,omitempty"` // base64
	Position int64    `json:"position,omitempty"`
	By       []string `json:"signed_by,omitempty"`
	Cosigned []string `json:"cosigned_by,omitempty"`   // only Config.Tree's witnesses
	Earliest int64    `json:"earliest_size,omitempty"` // of the first checkpoint, which the newest extends

	// Unshown means that the tree has events but the feed never showed one. Cleared means that the
	// tree's newest event was read, and is from before the time at which the follower began.
	Unshown bool `json:"unshown,omitempty"`
	Cleared bool `json:"cleared,omitempty"`
}

// String is the report in one line.
func (r *Report) String() string {
	if r.Origin == "" {
		return texts.Count(r.Events, "event", "events") + "; nothing was proven, because --verify was not given."
	}
	if r.Size == 0 && r.Root == "" {
		return fmt.Sprintf("Nothing is proven yet: there was no checkpoint of %s.", r.Origin)
	}
	by := "signed by " + strings.Join(r.By, " and ")
	if len(r.Cosigned) > 0 {
		by += ", cosigned by " + strings.Join(r.Cosigned, " and ")
	}
	tree := fmt.Sprintf("the tree %s of size %d (root %s, log position %d), %s, which extends every tree accepted here since size %d", r.Origin, r.Size, r.Root, r.Position, by, r.Earliest)
	switch {
	case r.Cleared:
		return "Proven: the newest event of " + tree + ", is from before --since; no event was shown."
	case r.Unshown:
		return "Nothing is proven: no event was shown of " + tree + ". They may be older than the feed keeps events, or withheld: the service does not give the newest one."
	case r.Proven == nil:
		return "Proven: " + tree + "; no event was shown."
	}
	if r.Proven.Next-r.Proven.First == 1 {
		return fmt.Sprintf("Proven: event %d is, byte for byte, in %s.", r.Proven.First, tree)
	}
	return fmt.Sprintf("Proven: events %d to %d are, byte for byte and in this order, in %s.", r.Proven.First, r.Proven.Next-1, tree)
}

// Follower reads a feed and hands its events on.
type Follower struct {
	cfg     Config
	tag     string // the ETag of the newest checkpoint
	reached bool

	// short is since when pages have been faulty: they end before the signed tree, have no index,
	// or are empty although they say that there is more. Zero: they are not. wanted is the size of
	// the signed tree when that began.
	short  time.Time
	wanted int64

	owed owed // used until an event is shown
}

// New makes a Follower.
func New(cfg Config) *Follower { return &Follower{cfg: cfg} }

// Report says what has been done so far.
func (f *Follower) Report() *Report {
	s := f.cfg.State
	r := &Report{Events: s.Events}
	if t := f.cfg.Tree; t != nil {
		r.Origin, r.Proven, r.Earliest = t.origin, s.Proven, s.Earliest
		if a := t.accepted; a != nil {
			r.Size, r.Root, r.Position, r.By, r.Cosigned = a.Tree.N, a.Tree.Hash.String(), a.Position, a.By, a.Cosigned
			r.Unshown = s.Proven == nil && a.Tree.N > 0
			r.Cleared = r.Unshown && f.owed.size == a.Tree.N && f.owed.event != nil
		}
	}
	return r
}

// Run follows until ctx ends or, with Once, until there is nothing more; neither is an error. It
// returns a DifferenceError if the service contradicts what it has signed, and a RefusedError if
// the service refuses a request.
func (f *Follower) Run(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	if f.cfg.Tree != nil {
		// The feed must show everything that is already signed.
		if err := f.look(ctx, 0); err != nil {
			return f.ended(ctx, err)
		}
	}
	for idle, wait := false, againWait; ; {
		began, had := f.cfg.Clock(), f.cfg.State.Events
		more, err := f.round(ctx, idle)
		if err != nil {
			return f.ended(ctx, err)
		}
		if idle && !more && f.cfg.State.Events == had && f.cfg.Clock().Sub(began) < againWait {
			if !f.cfg.Pause(ctx, wait) { // the service did not hold its answer
				return nil
			}
			wait = min(2*wait, longestLook)
		} else {
			wait = againWait
		}
		idle = !more
		if more {
			continue
		}
		if !f.reached {
			f.reached = true
			if f.cfg.Reached != nil {
				f.cfg.Reached(f.Report())
			}
		}
		if f.cfg.Once {
			return nil
		}
	}
}

// ended returns the error of a run; nil if the caller ended it and err is not a DifferenceError.
func (f *Follower) ended(ctx context.Context, err error) error {
	var d *DifferenceError
	if ctx.Err() != nil && !errors.As(err, &d) {
		return nil
	}
	return err
}

// begin saves the mark of a new file before anything is written to it.
func (f *Follower) begin() error {
	if file, ok := f.cfg.Output.(*File); ok && f.cfg.State.Output == nil {
		var err error
		if f.cfg.State.Output, err = file.Mark(); err != nil {
			return err
		}
	}
	return f.cfg.Place.Save(f.cfg.State)
}

// round reads a page, checks it, hands it on and saves the place. more says whether there is
// something after it.
func (f *Follower) round(ctx context.Context, idle bool) (more bool, err error) {
	s := f.cfg.State
	q := pageQuery{cursor: s.Cursor, since: s.Since}
	if idle {
		q.wait = idleWait
	}
	var signedBefore int64
	if f.cfg.Tree != nil {
		signedBefore = f.cfg.Tree.size()
	}
	p, err := f.cfg.Client.page(ctx, q)
	if err != nil {
		return false, f.lostPlace(err)
	}
	if f.cfg.Tree != nil {
		if len(p.events) > 0 && p.first < 0 {
			return true, f.unindexed(ctx, p)
		}
		if again, err := f.check(ctx, p); err != nil || again {
			return again, err
		}
	}
	if len(p.events) > 0 && p.more && p.next == s.Cursor {
		return false, &RefusedError{Path: "/v1/events", Status: http.StatusOK, Detail: "the page says that there is more, and gives the cursor with which it was asked for"}
	}
	if len(p.events) > 0 {
		if s.Output, err = f.cfg.Output.Write(ctx, p.events); err != nil {
			return false, err
		}
		s.Events += int64(len(p.events))
	}
	s.Cursor = p.next
	if err := f.cfg.Place.Save(s); err != nil {
		return false, err
	}
	return f.goOn(ctx, p, signedBefore)
}

// lostPlace adds what to do if the service refuses the cursor: the log went back to an earlier
// state, or the events after the cursor are no longer kept.
func (f *Follower) lostPlace(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) && f.cfg.State.Cursor != "" {
		for _, field := range refused.Fields {
			if field == "cursor" {
				return fmt.Errorf("the place in the feed is lost after %s: %w. Keep the state as it is, and begin with another --state, with --since", texts.Count(f.cfg.State.Events, "event", "events"), err)
			}
		}
	}
	return err
}

// check proves a page and extends the proven range. again says that the page must be read again.
func (f *Follower) check(ctx context.Context, p *page) (again bool, err error) {
	s, t := f.cfg.State, f.cfg.Tree
	if len(p.events) == 0 {
		return false, f.look(ctx, 0)
	}
	if s.Proven != nil && p.first != s.Proven.Next {
		return false, t.withKept(&DifferenceError{
			Sentence: fmt.Sprintf("the page begins with the event at index %d, want %d: events were %s", p.first, s.Proven.Next, map[bool]string{true: "left out", false: "shown twice"}[p.first > s.Proven.Next]),
			Shown:    shownPage(p),
		})
	}
	next := p.first + int64(len(p.events))
	t.tiles.offer(p.first, leavesOf(p.events))
	if err := f.look(ctx, next); err != nil {
		return false, err
	}
	if err := t.Check(ctx, p.first, p.events); err != nil {
		return false, err
	}
	if s.Proven == nil {
		if again, err := f.leftOut(ctx, p); err != nil || again {
			return again, err
		}
		s.Proven = &Range{First: p.first}
	}
	s.Proven.Next = next
	return false, nil
}

// leftOut checks the event before the first one that was ever shown: if the service still keeps it,
// the feed should have begun with it or earlier. An event that has just become too old is kept only
// a little longer, so the page is read again; after ProofTimeout it is a difference.
func (f *Follower) leftOut(ctx context.Context, p *page) (again bool, err error) {
	if p.first == 0 {
		return false, nil
	}
	event, err := f.cfg.Tree.entry(ctx, p.first-1)
	if err != nil || event == nil || !f.wants(event) {
		return false, err
	}
	if f.patient(ctx) {
		return true, ctx.Err()
	}
	return false, f.cfg.Tree.withKept(&DifferenceError{
		Sentence: fmt.Sprintf("for %v the feed has begun with the event at index %d, and the one before it (%s) is kept: events are left out", f.cfg.ProofTimeout, p.first, nameOf(event)),
		Seen:     f.cfg.Tree.accepted.Note, Shown: event,
	})
}

// goOn reports whether there is more to read at once. If the page should have had more, goOn pauses
// and has it read again.
//
// The last page must reach everything that was signed before it was read, and a page that says that
// there is more must have events. An instance that lags behind catches up within a moment; after
// ProofTimeout it is a difference.
func (f *Follower) goOn(ctx context.Context, p *page, signedBefore int64) (more bool, err error) {
	missing := int64(0) // the tree size that the feed must have reached; 0: it has
	if f.cfg.Tree != nil {
		if missing, err = f.missing(ctx, signedBefore); err != nil {
			return false, err
		}
	}
	switch {
	case p.more && len(p.events) > 0, !p.more && missing == 0:
		f.short = time.Time{}
		return p.more, nil
	case f.wanted > 0 && f.next() >= f.wanted: // it has caught up since
		f.short = time.Time{}
	}
	if f.short.IsZero() {
		f.wanted = missing
	}
	if f.patient(ctx) {
		return true, ctx.Err()
	}
	return false, f.withheld(p, missing)
}

// next returns the index of the next event; 0 if none was shown yet.
func (f *Follower) next() int64 {
	if f.cfg.State.Proven == nil {
		return 0
	}
	return f.cfg.State.Proven.Next
}

// missing returns signedBefore, the size of the tree that was signed before a page was read, if the
// feed has not shown all the events up to there that it must show; 0: it has.
func (f *Follower) missing(ctx context.Context, signedBefore int64) (int64, error) {
	switch {
	case f.next() >= signedBefore:
		return 0, nil
	case f.cfg.State.Proven != nil:
		return signedBefore, nil
	}
	if f.owed.size != signedBefore {
		event, err := f.cfg.Tree.entry(ctx, signedBefore-1)
		if err != nil {
			return 0, err
		}
		f.owed = owed{size: signedBefore, event: event, shows: event != nil && f.wants(event)}
	}
	if f.owed.shows {
		return signedBefore, nil
	}
	return 0, nil
}

// owed is the newest event of a signed tree, while the feed has shown none of its events.
type owed struct {
	size  int64           // of the tree
	event json.RawMessage // nil: the service does not give it, as if it no longer kept it
	shows bool            // the feed must show it
}

// wants reports whether the feed must show this follower an event that the service keeps.
func (f *Follower) wants(event json.RawMessage) bool {
	if f.cfg.State.Since == "" {
		return true
	}
	var shown struct {
		CreatedAt time.Time `json:"created_at"`
	}
	since, err := time.Parse(time.RFC3339, f.cfg.State.Since)
	return err == nil && json.Unmarshal(event, &shown) == nil && !shown.CreatedAt.Before(since)
}

// withheld returns the difference or, without a Tree, the RefusedError for pages that have lacked
// events for ProofTimeout.
func (f *Follower) withheld(p *page, missing int64) error {
	s, t := f.cfg.State, f.cfg.Tree
	switch {
	case t == nil:
		return &RefusedError{Path: "/v1/events", Status: http.StatusOK, Detail: fmt.Sprintf("for %v the pages have said that there is more, and had no event", f.cfg.ProofTimeout)}
	case missing == 0:
		return t.withKept(&DifferenceError{
			Sentence: fmt.Sprintf("for %v the pages have said that there is more, and had no event", f.cfg.ProofTimeout),
			Shown:    shownPage(p),
		})
	case s.Proven == nil:
		return t.withKept(&DifferenceError{
			Sentence: fmt.Sprintf("for %v the feed has shown no event, and a tree of size %d is signed whose newest event is kept: events are withheld", f.cfg.ProofTimeout, missing),
			Seen:     t.accepted.Note, Shown: f.owed.event,
		})
	}
	return t.withKept(&DifferenceError{
		Sentence: fmt.Sprintf("for %v the feed has ended with the event at index %d, and a tree of size %d is signed: events are withheld", f.cfg.ProofTimeout, s.Proven.Next-1, missing),
		Seen:     t.accepted.Note, Shown: shownPage(p),
	})
}

// unindexed handles a page that does not say where in the tree it is, for example while the tree
// lags behind. The page is read again; after ProofTimeout it is a difference.
func (f *Follower) unindexed(ctx context.Context, p *page) error {
	if f.patient(ctx) {
		return ctx.Err()
	}
	return f.cfg.Tree.withKept(&DifferenceError{
		Sentence: fmt.Sprintf("for %v the page has not said at which index of the tree its first event is (Event-Index), so it cannot be checked", f.cfg.ProofTimeout),
		Shown:    shownPage(p),
	})
}

// patient pauses before a faulty page is read again. It returns false once pages have been faulty
// for ProofTimeout.
func (f *Follower) patient(ctx context.Context) bool {
	now := f.cfg.Clock()
	if f.short.IsZero() {
		f.short = now
	}
	if now.Sub(f.short) >= f.cfg.ProofTimeout {
		return false
	}
	f.cfg.Pause(ctx, againWait)
	return true
}

func shownPage(p *page) []byte {
	text, err := json.Marshal(map[string]any{"data": p.events, "has_more": p.more, "next_cursor": p.next, "event_index": p.first})
	if err != nil {
		return nil // what was read as JSON can be written
	}
	return text
}

// look accepts the newest checkpoint, and waits up to ProofTimeout for one that proves size events.
// It skips checkpoints that are older, such as those of an instance that lags behind, and those
// that witnesses have not cosigned yet.
func (f *Follower) look(ctx context.Context, size int64) error {
	t := f.cfg.Tree
	if size > 0 && t.proving() >= size {
		return nil
	}
	var passed error // why the newest checkpoint was skipped
	until := f.cfg.Clock().Add(f.cfg.ProofTimeout)
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		wait := proofWait
		if size == 0 {
			wait = 0
		}
		note, tag, err := f.cfg.Client.checkpoint(ctx, f.tag, wait)
		if err != nil {
			return err
		}
		var (
			stale      *staleError
			uncosigned *uncosignedError
		)
		if note != nil {
			err = t.Accept(ctx, note)
			if err != nil && !errors.As(err, &stale) && !errors.As(err, &uncosigned) {
				return err
			}
			if passed = err; err == nil {
				if err := f.accepted(tag); err != nil {
					return err
				}
			}
		}
		switch {
		case stale == nil && t.proving() >= size:
			return nil
		case !f.cfg.Clock().Before(until):
			return f.overdue(size, passed)
		}
		if !f.cfg.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
}

// accepted saves the accepted checkpoint in the state before anything relies on it, so that the
// next run also finds a checkpoint that does not extend it.
func (f *Follower) accepted(tag string) error {
	s, t := f.cfg.State, f.cfg.Tree
	if s.Checkpoint == "" {
		s.Earliest = t.size()
	}
	s.Checkpoint, f.tag = string(t.accepted.Note), tag
	return f.cfg.Place.Save(s)
}

// overdue returns the difference for a checkpoint that has not come in time. passed says why the
// newest one was skipped; nil: it was not.
func (f *Follower) overdue(size int64, passed error) error {
	t := f.cfg.Tree
	var (
		stale      *staleError
		uncosigned *uncosignedError
	)
	switch {
	case errors.As(passed, &stale):
		return t.withKept(&DifferenceError{Sentence: fmt.Sprintf("the tree has shrunk, and stayed so for %v: %v", f.cfg.ProofTimeout, stale), Seen: stale.seen.Note})
	case errors.As(passed, &uncosigned):
		return t.withKept(&DifferenceError{
			Sentence: fmt.Sprintf("the feed shows %s of the tree, and for %v there was no checkpoint of %s that is cosigned: %v", texts.Count(size, "event", "events"), f.cfg.ProofTimeout, texts.Plural(size, "it", "them"), uncosigned),
			Seen:     uncosigned.seen.Note,
		})
	}
	return t.withKept(&DifferenceError{
		Sentence: fmt.Sprintf("the feed shows %s of the tree, and for %v there was no checkpoint of a tree of more than %d: %s not signed", texts.Count(size, "event", "events"), f.cfg.ProofTimeout, t.proving(), texts.Plural(size-t.proving(), "one is", "they are")),
	})
}
