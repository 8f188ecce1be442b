package scenario

import "time"

// workload decides how much work a day brings: as much as the agency has contractors
// for, or more where the Config asks for more lines.
//
// It looks only one day ahead. Every day it takes the lines that are still missing,
// less the ones that earlier work will bring, and spreads them over the days that are
// left. So errors in its estimates are corrected by the end.
type workload struct {
	overhead float64 // estimated lines a day that are not about time entries
}

const (
	workPerContractor = 1.05 // pieces of work on a working day
	linesPerWork      = 2.05 // recorded and approved, and the odd correction
	linesPerInvoice   = 8
	// warmUp is the number of days after which the overhead so far says more than
	// the estimate.
	warmUp = 60
)

func newWorkload(g *Generator) workload {
	var w workload
	for _, e := range g.agency.engagements {
		w.overhead += linesPerInvoice / float64(e.client.cycle.days())
	}
	return w
}

// today is the number of pieces of work for the day that begins now.
func (w workload) today(g *Generator, today day) int64 {
	contractors := 0
	for _, c := range g.agency.contractors {
		if c.joined {
			contractors++
		}
	}
	n := float64(max(contractors, 1)) * workPerContractor * weight(today) * season(today)
	if g.entries > 0 {
		n = max(n, w.needed(g, today))
	}
	whole := int64(n)
	if g.rng.Float64() < n-float64(whole) {
		whole++
	}
	return whole
}

// needed is the number of pieces of work that today must bring for the number of
// lines to come out right.
func (w workload) needed(g *Generator, today day) float64 {
	last := dayOf(g.end - 1)
	left := float64(last-today) + 1
	missing := float64(g.entries - g.written)
	if left <= 2 {
		// This close to the end, the queue says what is still to come.
		missing -= float64(g.queue.due(g.end))
		return missing * weight(today) / weights(today, last)
	}
	overhead := w.overhead
	if played := float64(today - dayOf(g.start)); played > warmUp {
		overhead = float64(g.written-g.workEntries) / played
	}
	missing -= overhead*left + float64(g.inReview)
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

// weights adds up the weights of the days from first to last.
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
	switch _, m, dd := d.date().Date(); {
	case m == time.December && dd >= 24:
		return 0.3
	case m == time.August:
		return 0.75
	default:
		return 1
	}
}
