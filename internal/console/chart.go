package console

import (
	"math"
	"strings"
	"time"
)

// bar is the counts of one span of time.
type bar struct {
	At     time.Time
	Counts []int64 // by series
}

// look is how a series is drawn: by colour and by pattern, so that either is
// enough.
type look string

const (
	lookGood  look = "good"  // solid
	lookWait  look = "wait"  // dots
	lookBad   look = "bad"   // stripes
	lookQuiet look = "quiet" // outline
)

// series is what the n-th count of each bar means.
type series struct {
	Name string
	Look look
}

// The size of a drawing. It is as wide as the page lets it be, so what goes
// across is in per cent of that; what goes up is in pixels, so that it is as
// high on a telephone, and its words as large.
const (
	chartWidth  = 100.0
	chartHeight = 150.0 // as .plot in the stylesheet
	chartBottom = 20.0  // for the times
	chartTop    = 8.0
)

// chart is a drawing of stacked bars, made for the template "chart".
type chart struct {
	ID      string
	Title   string
	Summary string // what a reader would take from it
	Unit    string
	Height  float64
	Series  []chartSeries
	Lines   []chartLine
	Ticks   []chartTick
	Bars    []chartBar
	Rows    []bar // those with something in them, for the table
	Empty   bool
}

type chartSeries struct {
	series
	Total int64
}

// chartLine is a line of the scale.
type chartLine struct {
	Y     float64
	Value int64
}

// chartTick is a time under the bars.
type chartTick struct {
	X  float64
	At time.Time
}

// chartBar is one bar, as boxes from the bottom up.
type chartBar struct {
	At      time.Time
	X, W    float64
	Boxes   []chartBox
	Reading string // in words, on hover
}

type chartBox struct {
	Y, H float64
	Look look
}

// newChart draws bars, which must not be none. Each has a count for each
// series.
func newChart(id, title, unit string, bars []bar, kinds []series) *chart {
	c := &chart{ID: id, Title: title, Unit: unit, Height: chartHeight}
	var highest, all int64
	totals := make([]int64, len(kinds))
	for i := range bars {
		var sum int64
		for k, n := range bars[i].Counts {
			totals[k] += n
			sum += n
		}
		highest = max(highest, sum)
		all += sum
		if sum > 0 {
			c.Rows = append(c.Rows, bars[i])
		}
	}
	var parts []string
	for k, s := range kinds {
		c.Series = append(c.Series, chartSeries{s, totals[k]})
		parts = append(parts, formatCount(totals[k])+" "+strings.ToLower(s.Name))
	}
	c.Empty = all == 0
	c.Summary = title + ": " + strings.Join(parts, ", ") + "."
	top := niceCeiling(highest)
	floor := chartHeight - chartBottom
	scale := (floor - chartTop) / float64(top)
	for _, part := range []int64{0, top / 2, top} {
		if n := len(c.Lines); n == 0 || c.Lines[n-1].Value != part {
			c.Lines = append(c.Lines, chartLine{round(floor - float64(part)*scale), part})
		}
	}
	step := chartWidth / float64(len(bars))
	gap := math.Min(0.4, step*0.25)
	for i := range bars {
		c.addBar(&bars[i], float64(i)*step+gap/2, step-gap, floor, scale, kinds)
	}
	for i := 0; i < len(bars); i += max(1, len(bars)/6) {
		c.Ticks = append(c.Ticks, chartTick{round(float64(i) * step), bars[i].At})
	}
	return c
}

func (c *chart) addBar(b *bar, x, w, floor, scale float64, kinds []series) {
	drawn := chartBar{At: b.At, X: round(x), W: round(w)}
	var parts []string
	y := floor
	for k, n := range b.Counts {
		if n == 0 {
			continue
		}
		h := math.Max(float64(n)*scale, 1.5) // what is there can be seen
		y -= h
		drawn.Boxes = append(drawn.Boxes, chartBox{round(y), round(h), kinds[k].Look})
		parts = append(parts, formatCount(n)+" "+strings.ToLower(kinds[k].Name))
	}
	if len(drawn.Boxes) > 0 {
		drawn.Reading = b.At.Format("2 Jan, 15:04 UTC") + ": " + strings.Join(parts, ", ")
		c.Bars = append(c.Bars, drawn)
	}
}

// round keeps the page small: a hundredth of a unit is finer than a pixel.
func round(x float64) float64 { return math.Round(x*100) / 100 }

// niceCeiling is the next number that reads well on a scale: an even one of
// 1, 2 or 5 and zeros.
func niceCeiling(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, m := range []int64{2, 4, 6, 10} {
			if n <= m*unit {
				return m * unit
			}
		}
	}
}
