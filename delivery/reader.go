package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

const (
	// readBatch is how many webhooks one statement reads for.
	readBatch = 64
	// readers read side by side, so that one long statement (missed events of
	// weeks) does not hold the others up.
	readers = 2
	// retryPause is the pause after a statement failed; the database may be
	// away. Where it grows, it grows up to maxRetryPause.
	retryPause    = 250 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// read reads for the webhooks that want it, until ctx ends.
func (e *Engine) read(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.desk.readable:
		}
		lanes := e.desk.takeWants()
		if len(lanes) == 0 {
			continue
		}
		if err := e.readFor(ctx, lanes); err != nil && ctx.Err() == nil {
			e.logger.WarnContext(ctx, "reading for webhooks failed; it is done again", "error", err)
			flow.Pause(ctx, retryPause)
		}
	}
}

// takeWants takes what is to be read for. The token is passed on when something
// is left.
func (d *desk) takeWants() (lanes []*lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	n := min(len(d.wants), readBatch)
	lanes = slices.Clone(d.wants[:n])
	d.wants = slices.Delete(d.wants, 0, n)
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool {
		l.wanted = false
		if l.leaving {
			l.announced = true
			return true
		}
		l.reading = true
		return false
	})
	if len(d.wants) > 0 {
		nudge(d.readable)
	}
	return lanes
}

// readFor reads what is due for some lanes.
func (e *Engine) readFor(ctx context.Context, lanes []*lane) error {
	questions := e.desk.ask(lanes)
	ctx, cancel := context.WithTimeout(ctx, statementPatience)
	defer cancel()
	answers, err := e.rows.poll(ctx, questions, e.clock())
	if err != nil {
		e.desk.unread(questions)
		return err
	}
	var changed []key
	for i, a := range answers {
		if a.found && a.version != questions[i].version {
			changed = append(changed, questions[i].key)
		}
	}
	var anew map[key]*loaded
	if len(changed) > 0 {
		if anew, err = e.rows.load(ctx, changed); err != nil {
			e.desk.unread(questions)
			return err
		}
	}
	for i, q := range questions {
		if q.replayUntil == 0 || q.replayRoom == 0 || anew[q.key] != nil || !answers[i].found {
			continue
		}
		answers[i].jobs[missed], answers[i].replay, err = e.rows.missed(ctx, q)
		if err != nil {
			e.desk.unread(questions)
			return err
		}
	}
	e.desk.serve(questions, answers, anew)
	return nil
}
