package chart

// sparkHeight is that of a Spark, in pixels, as .spark in the stylesheet.
const sparkHeight = 28.0

// Spark is a small drawing of bars without a scale, beside the name of what it is about.
// The console's template "spark" writes it out.
type Spark struct {
	ID      string
	Summary string // the totals in a sentence
	Bars    []drawnBar
}

// NewSpark draws bars, at least one; nil: all their counts are 0.
func NewSpark(id, title, unit string, bars []Bar, series []Series) *Spark {
	c := New(id, title, unit, bars, series)
	if c.Empty {
		return nil
	}
	var highest int64
	for i := range bars {
		var sum int64
		for _, n := range bars[i].Counts {
			sum += n
		}
		highest = max(highest, sum)
	}
	small := &Chart{}
	step := width / float64(len(bars))
	for i := range bars {
		small.addBar(&bars[i], float64(i)*step, step*0.8, sparkHeight, (sparkHeight-3)/float64(highest), series)
	}
	return &Spark{ID: id, Summary: c.Summary, Bars: small.Bars}
}
