package chart

import "github.com/ledgerfeed/ledgerfeed/internal/console/label"

// NewTimes draws within how long half and 95 % of something ended: two counts of
// milliseconds for each bar, of which the second is not below the first. half and most
// are those of all bars together.
func NewTimes(id, title, unit string, bars []Bar, half, most int64) *Chart {
	stacked := make([]Bar, len(bars))
	for i, b := range bars {
		stacked[i] = Bar{At: b.At, Counts: []int64{b.Counts[0], b.Counts[1] - b.Counts[0]}}
	}
	c := New(id, title, unit, stacked, []Series{{Name: "Half within (ms)", Look: Good}, {Name: "95 % within (ms)", Look: Quiet}})
	c.Series[0].Total, c.Series[1].Total = half, most
	c.Summary = title + ": half within " + label.Millis(half) + ", 95 % within " + label.Millis(most) + "."
	c.Rows = nil
	for _, b := range bars {
		if b.Counts[1] > 0 {
			c.Bars[len(c.Rows)].Reading = reading(b.At, "half within "+label.Millis(b.Counts[0])+", 95 % within "+label.Millis(b.Counts[1]))
			c.Rows = append(c.Rows, b)
		}
	}
	return c
}

// ByDay has the times under the bars as days, for charts of several of them.
func (c *Chart) ByDay(days bool) *Chart {
	c.Days = days
	return c
}

// NewShares draws a share in per cent for each bar.
func NewShares(id, title, unit string, bars []Bar, series Series) *Chart {
	c := New(id, title, unit, bars, []Series{series})
	var highest int64
	for _, b := range bars {
		highest = max(highest, b.Counts[0])
	}
	c.Series[0].Total = highest
	c.Summary = title + ": " + label.Count(highest) + " % at most."
	for i := range c.Bars {
		c.Bars[i].Reading = reading(c.Bars[i].At, label.Count(c.Rows[i].Counts[0])+" %")
	}
	return c
}
