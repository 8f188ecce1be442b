package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// fruitlessPause is the pause after a claim that took nothing. Nearly all
	// webhooks with events are held already, so claims for them are collected.
	fruitlessPause = 20 * time.Millisecond

	// debounceTime is how long a workspace in which there was nothing to claim is
	// left out. In a busy workspace whose webhooks are all held, not every event
	// is worth a claim. A sweep finds what is missed.
	debounceTime = 200 * time.Millisecond
	// maxDebounced bounds the workspaces that are remembered for that.
	maxDebounced = 10_000
)

// claims are the webhooks that may have something to do and are not held here.
type claims struct {
	workspaces map[string]struct{}
	keys       map[Key]struct{}
	due        time.Time // when the first of them may be claimed

	underWay  *Claim
	notBefore time.Time
	blocked   bool // while held webhooks are reconciled with the database

	debounced   map[string]time.Time // workspaces with nothing to claim, until when
	coolingDown map[Key]time.Time    // webhooks that are left to other processes, until when
}

func newClaims() claims {
	return claims{
		workspaces: map[string]struct{}{}, keys: map[Key]struct{}{},
		debounced: map[string]time.Time{}, coolingDown: map[Key]time.Time{},
	}
}

func (c *claims) empty() bool { return len(c.workspaces)+len(c.keys) == 0 }

// addWorkspace adds the webhooks of a workspace that are not held here.
func (c *claims) addWorkspace(workspaceID string) {
	if until := c.debounced[workspaceID]; c.empty() || until.Before(c.due) {
		c.due = until
	}
	c.workspaces[workspaceID] = struct{}{}
}

// addKey adds one webhook.
func (c *claims) addKey(k Key) {
	c.due = time.Time{}
	c.keys[k] = struct{}{}
}

// take returns the next claim to make; nil: none now.
func (c *claims) take(lease string, now time.Time) *Claim {
	if lease == "" || c.underWay != nil || c.blocked || c.empty() || now.Before(c.due) || now.Before(c.notBefore) {
		return nil
	}
	claim := &Claim{Lease: lease}
	c.due = time.Time{}
	for w := range c.workspaces {
		until := c.debounced[w]
		if !now.Before(until) {
			claim.WorkspaceIDs = append(claim.WorkspaceIDs, w)
			delete(c.workspaces, w)
		} else if c.due.IsZero() || until.Before(c.due) {
			c.due = until
		}
	}
	if len(claim.WorkspaceIDs)+len(c.keys) == 0 {
		return nil
	}
	slices.Sort(claim.WorkspaceIDs)
	claim.Keys = slices.SortedFunc(maps.Keys(c.keys), Key.compare)
	clear(c.keys)
	maps.DeleteFunc(c.coolingDown, func(_ Key, until time.Time) bool { return !now.Before(until) })
	claim.Except = slices.SortedFunc(maps.Keys(c.coolingDown), Key.compare)
	c.underWay = claim
	return claim
}

// done ends the claim under way. It remembers the workspaces in which nothing was
// claimed.
func (c *claims) done(claim *Claim, claimed []Loaded, now time.Time) {
	c.underWay = nil
	if len(c.debounced) > maxDebounced {
		clear(c.debounced)
	}
	for _, w := range claim.WorkspaceIDs {
		c.debounced[w] = now.Add(debounceTime)
	}
	for i := range claimed {
		delete(c.debounced, claimed[i].Key.WorkspaceID)
	}
	if len(claimed) == 0 {
		c.notBefore = now.Add(fruitlessPause)
	}
}

// failed ends the claim under way, which was not made or not to the end, and puts it back.
func (c *claims) failed(claim *Claim) {
	c.underWay = nil
	for _, w := range claim.WorkspaceIDs {
		c.addWorkspace(w)
	}
	for _, k := range claim.Keys {
		c.addKey(k)
	}
}

// next is when take may return a claim; zero: not before another event.
func (c *claims) next(now time.Time) time.Time {
	switch {
	case c.underWay != nil || c.blocked || c.empty():
		return time.Time{}
	case c.due.Before(c.notBefore):
		return c.notBefore
	case c.due.Before(now):
		return now
	}
	return c.due
}

// compare orders keys.
func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.WorkspaceID, o.WorkspaceID), cmp.Compare(k.WebhookID, o.WebhookID))
}
