package check

import (
	"slices"
	"time"
)

// Gap is a time in which a reader got no good answer.
type Gap struct {
	Who      string
	From, To time.Time
}

// Length of the gap.
func (g Gap) Length() time.Duration { return g.To.Sub(g.From) }

// Sample is what a bystander saw of one append.
type Sample struct {
	At           time.Time
	Acknowledged time.Duration // how long the append took
	Failed       bool          // it was not acknowledged
	Delivered    time.Duration // how long until the receiver had the event; 0: not waited for
}

// Fault is a fault that was done.
type Fault struct {
	Number       int
	Kind, Detail string
	Touches      []string // names of processes; TouchesDatabase: everybody who uses it
	Began, Ended time.Time
	Err          string
}

// What a Fault can touch besides processes by their names.
const (
	TouchesDatabase  = "database"
	TouchesProducers = "producers"
	TouchesReceivers = "receivers"
)

func (f *Fault) touches(what ...string) bool {
	return slices.ContainsFunc(what, func(w string) bool { return slices.Contains(f.Touches, w) })
}

// mostRecovery is how long after a fault a process may take until it answers.
const mostRecovery = 30 * time.Second

// AnswersInTime checks that every process answered within 30 s after the last fault
// that touched it. anybody is the reader who asks any process.
func AnswersInTime(gaps []Gap, faults []Fault, anybody string, f *Findings) {
	for _, g := range gaps {
		if g.Who == anybody {
			continue
		}
		since := g.From
		for i := range faults {
			if faults[i].touches(g.Who, TouchesDatabase) && faults[i].Began.Before(g.To) && faults[i].Ended.After(since) {
				since = faults[i].Ended
			}
		}
		if late := g.To.Sub(since); late > mostRecovery {
			f.Add(RuleAnswers, "process %s gave no good answer from %s to %s, %v after the last fault that touched it",
				g.Who, g.From.Format(time.TimeOnly), g.To.Format(time.TimeOnly), late.Round(time.Second))
		}
	}
}

// Bounds of what a bystander may feel of a fault that is another workspace's.
const (
	mostAcknowledged = 8 * time.Second
	mostDelivered    = 15 * time.Second
)

// BystandersUnaffected checks that appends and deliveries of a workspace that a fault is
// not about went on as usual. Only faults of the kinds given count, and only samples
// that no other fault can explain.
func BystandersUnaffected(samples []Sample, faults []Fault, kinds []string, f *Findings) {
	for _, s := range samples {
		end := s.At.Add(max(s.Acknowledged, s.Delivered))
		blamed := ""
		excused := false
		for i := range faults {
			x := &faults[i]
			switch {
			case !x.Began.Before(end) || !x.Ended.Add(mostRecovery).After(s.At):
			case slices.Contains(kinds, x.Kind):
				if x.Ended.After(s.At) {
					blamed = x.Kind
				}
			default:
				excused = true
			}
		}
		if blamed == "" || excused {
			continue
		}
		if s.Failed || s.Acknowledged > mostAcknowledged {
			f.Add(RuleBystanders, "during %s an append to another workspace took %v (failed: %t)", blamed, s.Acknowledged.Round(time.Millisecond), s.Failed)
		}
		if s.Delivered > mostDelivered {
			f.Add(RuleBystanders, "during %s an event of another workspace took %v to its receiver", blamed, s.Delivered.Round(time.Millisecond))
		}
	}
}

// Longest returns the longest gap of a reader that began while a fault of a kind was
// under way or just over, by kind. A gap counts for the fault that began last before
// its end.
func Longest(gaps []Gap, faults []Fault, who string) map[string]time.Duration {
	const after = 3 * time.Second
	longest := map[string]time.Duration{}
	for _, g := range gaps {
		if g.Who != who {
			continue
		}
		var blamed *Fault
		for i := range faults {
			x := &faults[i]
			if x.Began.Before(g.To) && x.Ended.Add(after).After(g.From) && (blamed == nil || x.Began.After(blamed.Began)) {
				blamed = x
			}
		}
		kind := ""
		if blamed != nil {
			kind = blamed.Kind
		}
		longest[kind] = max(longest[kind], g.Length())
	}
	return longest
}

// Excused tells whether a fault that was under way or just over explains that a
// process ended: at its start a process needs the database.
func Excused(at time.Time, faults []Fault, process string) bool {
	return slices.ContainsFunc(faults, func(x Fault) bool {
		return x.touches(process, TouchesDatabase) && x.Began.Before(at) && x.Ended.Add(mostRecovery).After(at)
	})
}
