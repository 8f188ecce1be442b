package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// pageSize is how many entries a page lists.
const pageSize = 50

// Anomalies serves the pages of entries that had no effect, or not all of it (docs/contract/log.md,
// "A fold that never stops"). They show ids, never the data of an entry, which has amounts and pay.
type Anomalies struct {
	store   *anomaly.Store
	waiting waiting
}

// New creates the pages. A check for unacknowledged anomalies takes at most timeout. Where very
// many are acknowledged, it would take longer, so the menu shows no mark.
func New(store *anomaly.Store, timeout time.Duration) *Anomalies {
	return &Anomalies{store: store, waiting: waiting{store: store, timeout: timeout, known: map[waitingKey]waitingSince{}}}
}

// Routes returns the routes of the pages.
func (p *Anomalies) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/anomalies", Access: web.SignedIn, Heavy: true, Handle: p.groupsPage},
		{Method: http.MethodGet, Pattern: "/anomalies/at/{position}", Access: web.SignedIn, Heavy: true, Handle: p.entryPage},
		{Method: http.MethodPost, Pattern: "/anomalies/at/{position}", Access: web.Admin, Handle: p.acknowledgeEntry},
		{Method: http.MethodGet, Pattern: "/anomalies/{reason}/{type}", Access: web.SignedIn, Heavy: true, Handle: p.groupPage},
		{Method: http.MethodPost, Pattern: "/anomalies/{reason}/{type}", Access: web.Admin, Handle: p.acknowledgeGroup},
	}
}

// seenBy selects the anomalies that a session may see. A session that may not see pay sees none
// that are only about pay, and none of types that this version does not know.
func seenBy(s *session.Session) anomaly.Filter {
	return anomaly.Filter{WorkspaceID: s.WorkspaceID, NoPay: !s.MaySeePay()}
}

// groupsBody is the template data of the page of all anomalies.
type groupsBody struct {
	Groups []anomaly.Group
	All    bool // include acknowledged ones
}

// meaning is a reason with what it means and what to do about it.
type meaning struct{ Name, Text string }

// Meanings explains each reason of the groups once, as the command line does.
func (b *groupsBody) Meanings() (all []meaning) {
	for i := range b.Groups {
		one := meaning{anomaly.Name(b.Groups[i].Reason), anomaly.Explain(b.Groups[i].Reason)}
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// OnlyFirst says that not all anomalies were counted; empty: all were.
func (b *groupsBody) OnlyFirst() string {
	if len(b.Groups) == 0 || !b.Groups[0].AtLeast {
		return ""
	}
	return anomaly.OnlyFirst()
}

func (p *Anomalies) groupsPage(r *web.Request) error {
	f := seenBy(r.Session)
	f.All, f.First = r.Query("all") == "1", anomaly.MostGrouped
	groups, err := p.store.Groups(r.Context(), f)
	if err != nil {
		return err
	}
	return r.Show("anomalies", web.View{Title: "Anomalies", Section: "anomalies", Body: &groupsBody{groups, f.All}})
}

// groupBody is the template data of the page of one group.
type groupBody struct {
	Group    anomaly.Group // includes acknowledged ones
	Meaning  string
	Entries  []anomaly.Anomaly
	Note     string // as it was sent
	Restored bool   // the note is from a draft
	Fault    string
	web.Pager
}

// Waiting returns how many of the group nobody has acknowledged.
func (b *groupBody) Waiting() int64 { return b.Group.Count - b.Group.Acknowledged }

func groupAddress(reason domain.Reason, typ string) string {
	return "/anomalies/" + url.PathEscape(string(reason)) + "/" + url.PathEscape(typ)
}

// group finds the group that the address names. The error is web.ErrNotFound if the session sees no
// anomaly in it.
func (p *Anomalies) group(r *web.Request) (*groupBody, error) {
	f := seenBy(r.Session)
	f.Reason, f.Type, f.All = domain.Reason(r.Path("reason")), r.Path("type"), true
	if f.Reason == "" || f.Type == "" {
		return nil, web.ErrNotFound
	}
	groups, err := p.store.Groups(r.Context(), f)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, web.ErrNotFound
	}
	body := &groupBody{Group: groups[0], Meaning: anomaly.Explain(f.Reason)}
	before, here := int64(0), groupAddress(f.Reason, f.Type)
	if text := r.Query("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return nil, web.ErrCursor
		}
		body.Newest = here
	}
	if body.Entries, err = p.store.Before(r.Context(), f, before, pageSize+1); err != nil {
		return nil, err
	}
	if len(body.Entries) > pageSize {
		body.Entries = body.Entries[:pageSize]
		body.Older = web.Address(here, "before", strconv.FormatInt(body.Entries[pageSize-1].Position, 10))
	}
	return body, nil
}

func (p *Anomalies) groupPage(r *web.Request) error {
	body, err := p.group(r)
	if err != nil {
		return err
	}
	if r.RestoreDraft() {
		body.Note, body.Restored = r.Field("note"), true
	}
	return showGroup(r, http.StatusOK, body)
}

func showGroup(r *web.Request, status int, body *groupBody) error {
	return r.ShowStatus(status, "anomaly-group", web.View{Title: anomaly.Name(body.Group.Reason), Section: "anomalies", Body: body})
}

// acknowledgeGroup acknowledges the entries that the person saw, not those that came later.
func (p *Anomalies) acknowledgeGroup(r *web.Request) error {
	body, err := p.group(r)
	if err != nil {
		return err
	}
	upTo, err := strconv.ParseInt(r.Field("up_to"), 10, 64)
	if err != nil || upTo < 1 {
		return web.ErrForm
	}
	which := anomaly.Which{Reason: body.Group.Reason, Type: body.Group.Type, UpTo: upTo}
	if body.Note, body.Fault, err = p.acknowledge(r, which); err != nil {
		return err
	}
	if body.Fault != "" {
		return showGroup(r, http.StatusUnprocessableEntity, body)
	}
	return r.Redirect("/anomalies?did=acknowledged")
}

// acknowledge acknowledges entries. It returns the note and, in a sentence, what is wrong with it.
func (p *Anomalies) acknowledge(r *web.Request, which anomaly.Which) (note, fault string, err error) {
	note = r.Field("note")
	_, err = p.store.Acknowledge(r.Context(), r.Session.WorkspaceID, which, note)
	if wrong, ok := errors.AsType[*anomaly.NoteError](err); ok {
		return note, web.Sentence(wrong.Error()), nil
	}
	p.waiting.forget(r.Session.WorkspaceID)
	return note, "", err
}

// entryBody is the template data of the page of one entry.
type entryBody struct {
	Entry    *anomaly.Anomaly // the first of its reasons
	Reasons  []reason
	Waiting  bool // some of them are not acknowledged
	Note     string
	Fault    string
	Restored bool // the note is from a draft
}

// reason is why an entry is an anomaly, and who has acknowledged it.
type reason struct {
	*anomaly.Anomaly
	Meaning string
	By      string // empty: the audit trail does not say who
}

// At returns when it was acknowledged; zero: it was not.
func (r reason) At() time.Time {
	if r.AcknowledgedAt == nil {
		return time.Time{}
	}
	return *r.AcknowledgedAt
}

// entry finds the entry that the address names. The error is web.ErrNotFound if the session sees no
// anomaly there.
func (p *Anomalies) entry(r *web.Request) (*entryBody, error) {
	position, err := strconv.ParseInt(r.Path("position"), 10, 64)
	if err != nil {
		return nil, web.ErrNotFound
	}
	list, err := p.store.At(r.Context(), seenBy(r.Session), position)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, web.ErrNotFound
	}
	body := &entryBody{Entry: &list[0]}
	for i := range list {
		one := reason{Anomaly: &list[i], Meaning: anomaly.Explain(list[i].Reason)}
		if one.AcknowledgedAt == nil {
			body.Waiting = true
		} else if one.By, err = p.store.AcknowledgedBy(r.Context(), r.Session.WorkspaceID, *one.AcknowledgedAt); err != nil {
			return nil, err
		}
		body.Reasons = append(body.Reasons, one)
	}
	return body, nil
}

func (p *Anomalies) entryPage(r *web.Request) error {
	body, err := p.entry(r)
	if err != nil {
		return err
	}
	if r.RestoreDraft() {
		body.Note, body.Restored = r.Field("note"), true
	}
	return showEntry(r, http.StatusOK, body)
}

func showEntry(r *web.Request, status int, body *entryBody) error {
	title := "Position " + web.Count(body.Entry.Position)
	return r.ShowStatus(status, "anomaly", web.View{Title: title, Section: "anomalies", Body: body})
}

func (p *Anomalies) acknowledgeEntry(r *web.Request) error {
	body, err := p.entry(r)
	if err != nil {
		return err
	}
	if body.Note, body.Fault, err = p.acknowledge(r, anomaly.Which{Position: body.Entry.Position}); err != nil {
		return err
	}
	if body.Fault != "" {
		return showEntry(r, http.StatusUnprocessableEntity, body)
	}
	return r.Redirect("/anomalies/at/" + strconv.FormatInt(body.Entry.Position, 10) + "?did=acknowledged")
}

const (
	// waitingFor is how long an answer of Wait is cached: every page shows it, and where very many
	// anomalies are acknowledged, the check takes long.
	waitingFor = 15 * time.Second
	// maxWaiting is how many answers are cached.
	maxWaiting = 1000
)

// waiting checks for unacknowledged anomalies and caches the answers. It is safe for concurrent
// use.
type waiting struct {
	store   *anomaly.Store
	timeout time.Duration      // of one check
	looks   singleflight.Group // by key: concurrent pages share one check

	mu    sync.Mutex
	known map[waitingKey]waitingSince // guarded by mu
}

type waitingKey struct {
	workspaceID string
	pay         bool // include those about pay
}

type waitingSince struct {
	there bool
	at    time.Time
}

// Wait reports whether there are unacknowledged anomalies that a session may see.
func (p *Anomalies) Wait(ctx context.Context, s *session.Session, now time.Time) (bool, error) {
	w := &p.waiting
	key := waitingKey{s.WorkspaceID, s.MaySeePay()}
	w.mu.Lock()
	found, ok := w.known[key]
	w.mu.Unlock()
	if ok && now.Sub(found.at) < waitingFor {
		return found.there, nil
	}
	result, err, _ := w.looks.Do(fmt.Sprint(key), func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.timeout)
		defer cancel()
		there, err := w.store.Any(limited, seenBy(s))
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			return false, nil // the mark is not worth more time
		}
		return there, err
	})
	if err != nil {
		return false, fmt.Errorf("look for anomalies that wait: %w", err)
	}
	there, _ := result.(bool)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= maxWaiting {
		clear(w.known)
	}
	w.known[key] = waitingSince{there, now}
	return there, nil
}

// forget makes the next page of a workspace check again.
func (w *waiting) forget(workspaceID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, waitingKey{workspaceID, true})
	delete(w.known, waitingKey{workspaceID, false})
}
