package scenario

// pace decides how much work a day brings: as much as the agency has people
// for, or more when so many lines are wanted.
//
// It steers rather than plans: every day it takes the lines that are still
// missing, less those that are on their way, and spreads them over the days
// that are left. Errors in its estimates thus shrink to nothing by the end.
type pace struct {
	overhead float64 // lines a day beside those about time entries, at first
}

const (
	workPerContractor = 1.05 // pieces of work on a working day
	linesPerWork      = 2.05 // recorded and approved, and the odd correction
	linesPerInvoice   = 8
	// settling is how many days the agency runs before its own overhead says
	// more than the estimate.
	settling = 60
)

func newPace(g *Generator) pace {
	var p pace
	for _, e := range g.cast.engagements {
		p.overhead += linesPerInvoice / float64(e.client.rhythm.days())
	}
	return p
}

// today is the number of pieces of work for the day that begins now.
func (p pace) today(g *Generator, today day) int64 {
	hands := 0
	for _, c := range g.cast.contractors {
		if c.joined {
			hands++
		}
	}
	n := float64(max(hands, 1)) * workPerContractor * weight(today) * season(today)
	if g.entries > 0 {
		n = max(n, p.needed(g, today))
	}
	whole := int64(n)
	if g.rng.Float64() < n-float64(whole) {
		whole++
	}
	return whole
}

// needed is what today must bring for the count to come out even.
func (p pace) needed(g *Generator, today day) float64 {
	last := dayOf(g.end - 1)
	left := float64(last-today) + 1
	missing := float64(g.entries - g.lines)
	if left <= 2 {
		// So near to the end, the queue itself says what comes yet.
		missing -= float64(g.queue.due(g.end))
		return missing * weight(today) / weights(today, last)
	}
	overhead := p.overhead
	if played := float64(today - dayOf(g.start)); played > settling {
		overhead = float64(g.lines-g.work) / played
	}
	missing -= overhead*left + float64(g.reviews)
	return missing / linesPerWork * weight(today) / weights(today, last)
}

// weight is how much of a working day a day is.
func weight(d day) float64 {
	switch d.weekday() {
	case 5:
		return 0.12
	case 6:
		return 0.06
	default:
		return 1
	}
}

// weights adds up the days from first to last.
func weights(first, last day) float64 {
	const week = 5 + 0.12 + 0.06
	n := int64(last-first) + 1
	sum := float64(n/7) * week
	for d := last - day(n%7) + 1; d <= last; d++ {
		sum += weight(d)
	}
	return sum
}

// season is how busy the time of the year is.
func season(d day) float64 {
	switch _, m, dd := d.civil(); {
	case m == 12 && dd >= 24:
		return 0.3
	case m == 8:
		return 0.75
	default:
		return 1
	}
}
