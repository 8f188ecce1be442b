package copying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
)

const (
	// batchRows and batchBytes bound what is held of a list while it is copied.
	batchRows  = 2_000
	batchBytes = 4 << 20
	// brokenOffTries is how often a whole list is read that is broken off.
	brokenOffTries = 5
	pageTimeout    = 5 * time.Minute
	wholeIdle      = 10 * time.Minute // in which the API is read
	firstPause     = time.Second
	longestPause   = time.Minute
	// A process that copies once may meet one that keeps the copy, which then goes on from where the
	// other one was. Two that keep it meet again and again.
	mostMeetings = 5
	meetingsIn   = time.Minute
)

// Config configures a Copier.
type Config struct {
	API      *client.Client
	Database *Database

	// Reconnect makes a client with the key of now, after the key was refused. Nil, or no client: the
	// key is still the one that was refused.
	Reconnect func() (*client.Client, error)

	// KeepRemoved leaves rows in the copy that the API has removed, with the time in removed_at. Rows
	// and fields that a key with fewer permissions does not see leave the copy nevertheless.
	KeepRemoved bool
	// PageTimeout bounds the time that it takes the copy to change by one page or batch; 0: 5 minutes.
	// It ends the wait for a database that takes statements and answers none.
	PageTimeout time.Duration
	// Once ends the copier when there is nothing more.
	Once bool

	Clock  func() time.Time
	Pause  func(ctx context.Context, d time.Duration) bool // false: ctx has ended
	Logger *slog.Logger
}

// Copier keeps a copy of the lists that a key may read.
type Copier struct {
	cfg    Config
	passed map[string]bool // fields that the rows have and the API's description does not
	pace   *rate.Limiter   // of requests, below the key's limit

	whole sync.Mutex // one list after the other is read whole
}

// New makes a Copier.
func New(cfg Config) *Copier {
	cfg.PageTimeout = cmp.Or(cfg.PageTimeout, pageTimeout)
	return &Copier{cfg: cfg, passed: map[string]bool{}}
}

// newFieldError ends a round because rows have fields that the copy has no columns for.
type newFieldError struct {
	list  string
	names []string
}

func (e *newFieldError) Error() string {
	return fmt.Sprintf("rows of %s have new fields: %s", e.list, strings.Join(e.names, ", "))
}

// Run copies until ctx ends, or until there is nothing more if the copier works once. It goes on
// after failures, except those before its first success: they are most likely mistakes of its
// caller.
func (c *Copier) Run(ctx context.Context) error {
	var met []time.Time // when another process had changed the copy
	for pause, succeeded := firstPause, false; ; {
		err := c.round(ctx, func() { succeeded, pause = true, firstPause })
		if fresh, ok := errors.AsType[*newFieldError](err); ok {
			for _, name := range fresh.names {
				c.passed[fresh.list+"."+name] = true
			}
			c.cfg.Logger.WarnContext(ctx, "the API has new fields: its description is read again", "list", fresh.list, "fields", fresh.names)
			continue
		}
		if c.reconnect(err) {
			c.cfg.Logger.InfoContext(ctx, "the key was refused, and its file has another one: the copy goes on with it")
			continue
		}
		if err == nil || ctx.Err() != nil || c.cfg.Once || !succeeded || final(err) {
			return err
		}
		if errors.Is(err, errOtherWriter) {
			now := c.cfg.Clock()
			met = slices.DeleteFunc(append(met, now), func(at time.Time) bool { return at.Before(now.Add(-meetingsIn)) })
			if len(met) > mostMeetings {
				return err
			}
		}
		c.cfg.Logger.ErrorContext(ctx, "the copy failed and goes on from its place", "in", pause, "error", err)
		if !c.cfg.Pause(ctx, pause) {
			return context.Cause(ctx)
		}
		pause = min(2*pause, longestPause)
	}
}

// final says that going on would change nothing.
func final(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Status/100 == 4 && refused.Status != http.StatusTooManyRequests
}

// reconnect takes the key of now after the key was refused, and tells whether it is another one.
func (c *Copier) reconnect(err error) bool {
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusUnauthorized || c.cfg.Reconnect == nil {
		return false
	}
	api, failed := c.cfg.Reconnect()
	if failed != nil || api == nil {
		return false // the answer of the API says more
	}
	c.cfg.API = api
	return true
}

// round copies until something fails. It calls begun when all lists were copied once.
func (c *Copier) round(ctx context.Context, begun func()) error {
	lists, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	for l, s := range lists.each() {
		if err := c.catchUp(ctx, l, s); err != nil {
			return err
		}
	}
	begun()
	if c.cfg.Once {
		return nil
	}
	following, ctx := errgroup.WithContext(ctx)
	for l, s := range lists.each() {
		following.Go(func() error { return c.follow(ctx, l, s) })
	}
	return following.Wait()
}

// lists are the lists that a key may read, with the place of each copy.
type lists []*placed

type placed struct {
	list  *list
	state *state
}

func (l lists) each() func(yield func(*list, *state) bool) {
	return func(yield func(*list, *state) bool) {
		for _, one := range l {
			if !yield(one.list, one.state) {
				return
			}
		}
	}
}

// sight is what a key sees.
type sight struct {
	workspace, permissions string
	perMinute              int // requests
}

// seesLess tells whether one of the permissions of before is missing.
func (s sight) seesLess(before string) bool {
	return slices.ContainsFunc(strings.Fields(before), func(one string) bool { return !slices.Contains(strings.Fields(s.permissions), one) })
}

func (s sight) mayRead(l *list) bool {
	return slices.Contains(strings.Fields(s.permissions), l.permission)
}

// askAPI asks which lists there are, and what the key sees of them.
func (c *Copier) askAPI(ctx context.Context) ([]*list, sight, error) {
	me, err := c.cfg.API.Me(ctx)
	if err != nil {
		return nil, sight{}, err
	}
	document, err := c.cfg.API.OpenAPI(ctx)
	if err != nil {
		return nil, sight{}, err
	}
	described, err := describe(document)
	scopes := slices.Sorted(slices.Values(me.Scopes))
	return described, sight{me.Company.ID, strings.Join(scopes, " "), me.RateLimitPerMinute}, err
}

// prepare makes the tables what the API's description and the key's permissions say.
func (c *Copier) prepare(ctx context.Context) (readable lists, err error) {
	described, now, err := c.askAPI(ctx)
	if err != nil {
		return nil, err
	}
	c.pace = rate.NewLimiter(rate.Limit(now.perMinute)*0.9/60, max(1, now.perMinute/10))
	err = c.cfg.Database.transaction(ctx, c.idle(), func(w *writer) error {
		if err := w.createState(ctx); err != nil {
			return err
		}
		states, err := w.states(ctx)
		if err != nil {
			return err
		}
		for _, l := range described {
			s, err := c.prepareList(ctx, w, l, states, now)
			if err != nil {
				return err
			}
			if now.mayRead(l) {
				readable = append(readable, &placed{l, s})
			}
		}
		return w.createViews(ctx)
	})
	return readable, err
}

func otherWorkspace(s state, now sight) error {
	return fmt.Errorf("the copy is of the workspace %s, and the key of %s: use another database or schema", s.workspace, now.workspace)
}

// prepareList makes the tables of a list, and decides where its copy goes on.
func (c *Copier) prepareList(ctx context.Context, w *writer, l *list, states map[string]state, now sight) (*state, error) {
	s, known := states[l.name()]
	if !known {
		if err := w.create(ctx, l); err != nil {
			return nil, err
		}
		return &state{workspace: now.workspace, permissions: now.permissions}, w.exec(ctx, `INSERT INTO `+w.table(stateTable)+` (list, workspace, permissions, cursor, position) VALUES ($1, $2, $3, '', 0)`,
			l.name(), now.workspace, now.permissions)
	}
	if s.workspace != now.workspace {
		return nil, otherWorkspace(s, now)
	}
	added, err := w.extend(ctx, l)
	if err != nil {
		return nil, err
	}
	var reasons []string
	if len(added) > 0 {
		reasons = append(reasons, "the API has new fields: "+strings.Join(added, ", "))
	}
	if s.permissions != now.permissions {
		reasons = append(reasons, fmt.Sprintf("the key's permissions were %s, and are %s", s.permissions, now.permissions))
	}
	if len(reasons) == 0 {
		return &s, nil
	}
	if !now.mayRead(l) {
		if s.cursor == "" {
			return &s, nil
		}
		c.cfg.Logger.WarnContext(ctx, "a list is no longer copied, and its tables are emptied", "list", l.name(), "reason", "the key has not "+l.permission)
		if err := w.empty(ctx, l, false, c.now()); err != nil {
			return nil, err
		}
	} else if s.cursor != "" {
		c.sayAgain(ctx, l, strings.Join(reasons, "; "))
	}
	if now.mayRead(l) && now.seesLess(s.permissions) {
		// Until the list has been read again, the table keeps the old permissions: a crash forgets nothing.
		s.sight, s.cursor = now.permissions, ""
		return &s, w.exec(ctx, `UPDATE `+w.table(stateTable)+` SET cursor = '' WHERE list = $1`, l.name())
	}
	s.permissions, s.cursor = now.permissions, ""
	return &s, w.exec(ctx, `UPDATE `+w.table(stateTable)+` SET permissions = $1, cursor = '' WHERE list = $2`, now.permissions, l.name())
}

func (c *Copier) sayAgain(ctx context.Context, l *list, reason string) {
	c.cfg.Logger.WarnContext(ctx, "a list is copied again from its start", "list", l.name(), "reason", reason)
}

// now is the time, as the API writes times.
func (c *Copier) now() string { return c.cfg.Clock().UTC().Format("2006-01-02T15:04:05.000Z") }

// source reads a list over the API.
func (c *Copier) source(l *list) *client.RawList {
	query := url.Values{}
	if l.removes {
		query.Set("include", "removed")
	}
	return c.cfg.API.RawList(l.path, query)
}

// catchUp reads a list from its place to its end in one answer, and takes it over in one
// transaction. Readers see the list as it was, and then as it is.
func (c *Copier) catchUp(ctx context.Context, l *list, s *state) error {
	c.whole.Lock()
	defer c.whole.Unlock()
	for tries, pause := 1, firstPause; ; tries++ {
		from := s.cursor
		err := c.copyWhole(ctx, l, s)
		switch {
		case err == nil:
			return nil
		case from != "" && lostPlace(err):
			if err := c.startAgain(ctx, l, s, err); err != nil {
				return err
			}
			continue
		case !errors.Is(err, client.ErrBrokenOff) || tries == brokenOffTries:
			return err
		}
		c.cfg.Logger.WarnContext(ctx, "a list was broken off and is read again", "list", l.name(), "in", pause, "error", err)
		if !c.cfg.Pause(ctx, pause) {
			return context.Cause(ctx)
		}
		pause = min(2*pause, longestPause)
	}
}

// lostPlace says that a cursor cannot go on, but a new start can.
func lostPlace(err error) bool {
	switch client.CodeOf(err) { //nolint:exhaustive // the other codes are not about a lost place
	case client.CodeCursorReset, client.CodeCursorPermissions, client.CodeCursorInvalid:
		return true
	}
	return false
}

// startAgain forgets the place of a list. The rows stay until the list was read again.
func (c *Copier) startAgain(ctx context.Context, l *list, s *state, reason error) error {
	c.sayAgain(ctx, l, reason.Error())
	ctx, cancel := c.soon(ctx)
	defer cancel()
	err := c.cfg.Database.transaction(ctx, c.idle(), func(w *writer) error {
		return w.advance(ctx, l, step{from: s.cursor, position: s.position})
	})
	if err == nil {
		s.cursor = ""
	}
	return err
}

func (c *Copier) putBatch(ctx context.Context, w *writer, b *batch, fresh, keep bool) error {
	ctx, cancel := c.soon(ctx)
	defer cancel()
	return w.put(ctx, b, fresh, keep, c.now())
}

// copyWhole takes over what follows the place of a list.
func (c *Copier) copyWhole(ctx context.Context, l *list, s *state) error {
	began := c.cfg.Clock()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	whole := c.source(l).Whole(s.cursor)
	batches, failed := make(chan *batch, 1), make(chan error, 1)
	go func() {
		defer close(batches)
		failed <- c.readBatches(reading, l, whole, batches)
	}()
	rows, removed := 0, 0
	keep := c.cfg.KeepRemoved && s.sight == ""
	next := step{from: s.cursor}
	err := c.cfg.Database.transaction(ctx, wholeIdle, func(w *writer) error {
		fresh := s.cursor == ""
		if fresh {
			if err := w.empty(ctx, l, keep, c.now()); err != nil {
				return err
			}
			fresh = !keep
			next.whole = c.now()
		}
		for b := range batches {
			if s.cursor == "" {
				b.removed = nil // they are not there
			}
			if err := c.putBatch(ctx, w, b, fresh, keep); err != nil {
				return err
			}
			rows, removed = rows+b.rows, removed+len(b.removed)/len(l.root().key)
		}
		if err := <-failed; err != nil {
			return err
		}
		next.to, next.position, next.fresh = whole.Cursor(), whole.Position(), c.now()
		if err := w.advance(ctx, l, next); err != nil || s.sight == "" {
			return err
		}
		return w.exec(ctx, `UPDATE `+w.table(stateTable)+` SET permissions = $1 WHERE list = $2`, s.sight, l.name())
	})
	if err != nil {
		return err
	}
	if s.sight != "" {
		s.permissions, s.sight = s.sight, ""
	}
	if s.cursor == "" || rows+removed > 0 {
		c.cfg.Logger.InfoContext(ctx, "copied "+texts.Count(rows, "row", "rows"), "list", l.name(), "removed", removed, "position", next.position, "took", c.cfg.Clock().Sub(began).Round(time.Millisecond))
	}
	s.cursor, s.position = next.to, next.position
	return nil
}

// readBatches sends a whole list in batches.
func (c *Copier) readBatches(ctx context.Context, l *list, whole *client.Whole[client.RawRow], batches chan<- *batch) error {
	return inBatches(ctx, l, whole, func(b *batch) error {
		if err := c.unknown(b); err != nil {
			return err
		}
		select {
		case batches <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// unknown is the error of a batch whose rows have new fields.
func (c *Copier) unknown(b *batch) error {
	var names []string
	for name := range b.unknown {
		if !c.passed[b.list.name()+"."+name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &newFieldError{b.list.name(), names}
}

// follow takes over each change of a list as it comes.
func (c *Copier) follow(ctx context.Context, l *list, s *state) error {
	for {
		behind, err := c.followPages(ctx, l, s)
		if err != nil && lostPlace(err) {
			err = c.startAgain(ctx, l, s, err)
		} else if err == nil && !behind {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = c.catchUp(ctx, l, s)
		}
		if err != nil {
			return err
		}
	}
}

// followPages follows a list until it is so far behind that it better comes whole.
func (c *Copier) followPages(ctx context.Context, l *list, s *state) (behind bool, err error) {
	place := client.LoadOnly(func(context.Context) (string, error) { return s.cursor, nil })
	for page, err := range c.source(l).Follow(ctx, place, client.FollowOptions{}) {
		if err != nil {
			return false, err
		}
		if err := c.take(ctx, l, s, page); err != nil {
			return false, err
		}
		if page.More {
			return true, nil
		}
		// Under steady changes the requests are spread over the minute. Without this, the key's limit
		// would be used up at its beginning.
		if !c.cfg.Pause(ctx, c.pace.ReserveN(c.cfg.Clock(), 1).DelayFrom(c.cfg.Clock())) {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// soon bounds what changes the copy by a page or a batch.
func (c *Copier) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.cfg.PageTimeout)
}

// idle is how long the database waits for the next statement of such a change.
func (c *Copier) idle() time.Duration { return min(idleTimeout, c.cfg.PageTimeout) }

// take takes a page over.
func (c *Copier) take(ctx context.Context, l *list, s *state, page *client.Page[client.RawRow]) error {
	b := newBatch(l)
	for _, row := range page.Rows {
		if err := b.add(row); err != nil {
			return err
		}
	}
	if err := c.unknown(b); err != nil {
		return err
	}
	next := step{from: s.cursor, to: page.Cursor, position: s.position}
	if !page.More { // otherwise the copy shows no position as a whole
		next.position, next.fresh = page.Position, c.now()
	}
	ctx, cancel := c.soon(ctx)
	defer cancel()
	err := c.cfg.Database.transaction(ctx, c.idle(), func(w *writer) error {
		if err := w.advance(ctx, l, next); err != nil {
			return err
		}
		return w.put(ctx, b, false, c.cfg.KeepRemoved, c.now())
	})
	if err != nil {
		return err
	}
	s.cursor, s.position = next.to, next.position
	return nil
}
