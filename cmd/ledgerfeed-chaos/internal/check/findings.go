package check

import (
	"fmt"
	"slices"
	"sync"
)

// Finding is something that must not happen.
type Finding struct {
	Rule string // which promise it breaks
	Text string
}

func (f Finding) String() string { return f.Rule + ": " + f.Text }

// The promises that are checked.
const (
	RuleLog        = "the log is whole"
	RuleAppended   = "acknowledged is in the log"
	RuleOrder      = "the log keeps the order of time"
	RuleOutbox     = "entries and the producer's own rows commit together"
	RuleReadModels = "read models are the fold of the log"
	RuleVisible    = "no event ahead of its data"
	RuleEvents     = "followers get every event once, or are told"
	RuleRows       = "followers hold the newest rows, or are told"
	RuleDelivered  = "events are delivered at least once, and signed"
	RuleDuplicates = "repeats are within what was under way"
	RulePositions  = "messages carry the position of their event"
	RuleAnswers    = "every process answers within 30 s"
	RuleBystanders = "others do not feel it"
	RuleBounds     = "memory and descriptors are bounded"
	RuleProcess    = "no process ends by itself"
	RuleRelayed    = "the broker has every entry, in order"
	RuleIngested   = "what is ingested is in the log once, in order"
	RuleFollower   = "a follower region has the same log"
	RuleCopies     = "a copy equals the lists of the API"
	RuleVerify     = "verify and rebuild agree"
)

// Findings collects findings of any number of goroutines. The zero value is ready.
type Findings struct {
	mu    sync.Mutex
	list  []Finding
	count map[string]int
}

// mostOfRule is how many findings of one rule are kept: one cause often shows in
// many places.
const mostOfRule = 8

// Add adds a finding.
func (f *Findings) Add(rule, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[string]int{}
	}
	f.count[rule]++
	if f.count[rule] <= mostOfRule {
		f.list = append(f.list, Finding{rule, fmt.Sprintf(format, args...)})
	}
}

// List returns the findings that were kept.
func (f *Findings) List() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

// Counts returns how many findings there were of each rule.
func (f *Findings) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make(map[string]int, len(f.count))
	for rule, n := range f.count {
		counts[rule] = n
	}
	return counts
}
