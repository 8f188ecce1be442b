// Package chart draws stacked bars as SVG. The console's template "chart" writes
// out what a Chart holds.
package chart

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
)

// Look is how a series is drawn: by colour and by pattern, so that either is
// enough.
type Look string

// The looks.
const (
	Good  Look = "good"  // solid
	Wait  Look = "wait"  // dots
	Bad   Look = "bad"   // stripes
	Quiet Look = "quiet" // outline
	Cross Look = "cross" // a grid
	Back  Look = "back"  // stripes the other way
	Grey  Look = "grey"  // solid
)

// Patterned tells whether it is drawn with a pattern, which each chart defines.
func (l Look) Patterned() bool { return l == Wait || l == Bad || l == Cross || l == Back }

// Series is what the n-th count of each bar means.
type Series struct {
	Name string
	One  string // the name of a single one, where it is another word
	Look Look
}

// The size of a drawing. The width is that of the page, so horizontal lengths are
// in per cent of it. Vertical lengths are in pixels, so that the drawing and its
// text are as high on a telephone.
const (
	width  = 100.0
	height = 150.0 // as .plot in the stylesheet
	bottom = 20.0  // space for the times
	top    = 8.0   // space above the highest bar
)

// Chart is a drawing, with what the template writes out.
type Chart struct {
	ID      string
	Title   string
	Summary string // the totals in a sentence
	Unit    string
	Height  float64
	Series  []legend
	Lines   []line
	Ticks   []tick
	Bars    []drawnBar
	Rows    []Bar // those with counts, for the table
	Empty   bool
	Days    bool // the ticks are days
}

type legend struct {
	Series
	Total int64
}

// line is a line of the scale.
type line struct {
	Y     float64
	Value int64
}

// tick is a time under the bars.
type tick struct {
	X  float64
	At time.Time
}

// drawnBar is one bar, as boxes from the bottom up.
type drawnBar struct {
	At      time.Time
	X, W    float64
	Boxes   []box
	Reading string // the counts in words, shown on hover
}

type box struct {
	Y, H float64
	Look Look
}

// New draws bars, at least one, each with a count for each series.
func New(id, title, unit string, bars []Bar, series []Series) *Chart {
	c := &Chart{ID: id, Title: title, Unit: unit, Height: height}
	var highest, all int64
	totals := make([]int64, len(series))
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
	for k, s := range series {
		c.Series = append(c.Series, legend{s, totals[k]})
		parts = append(parts, s.counted(totals[k]))
	}
	c.Empty = all == 0
	c.Summary = title + ": " + strings.Join(parts, ", ") + "."
	highestLine := niceCeiling(highest)
	floor := height - bottom
	scale := (floor - top) / float64(highestLine)
	for _, part := range []int64{0, highestLine / 2, highestLine} {
		if n := len(c.Lines); n == 0 || c.Lines[n-1].Value != part {
			c.Lines = append(c.Lines, line{round(floor - float64(part)*scale), part})
		}
	}
	step := width / float64(len(bars))
	gap := math.Min(0.4, step*0.25)
	for i := range bars {
		c.addBar(&bars[i], float64(i)*step+gap/2, step-gap, floor, scale, series)
	}
	for i := 0; i < len(bars); i += max(1, len(bars)/6) {
		c.Ticks = append(c.Ticks, tick{round(float64(i) * step), bars[i].At})
	}
	return c
}

// counted is a count of the series in words.
func (s *Series) counted(n int64) string {
	many := strings.ToLower(s.Name)
	return label.Plural(n, cmp.Or(s.One, many), many)
}

// Uses tells whether a series has a look.
func (c *Chart) Uses(look Look) bool {
	return slices.ContainsFunc(c.Series, func(s legend) bool { return s.Look == look })
}

func (c *Chart) addBar(b *Bar, x, w, floor, scale float64, series []Series) {
	drawn := drawnBar{At: b.At, X: round(x), W: round(w)}
	var parts []string
	y := floor
	for k, n := range b.Counts {
		if n == 0 {
			continue
		}
		h := math.Max(float64(n)*scale, 1.5) // visible, however small
		y -= h
		drawn.Boxes = append(drawn.Boxes, box{round(y), round(h), series[k].Look})
		parts = append(parts, series[k].counted(n))
	}
	if len(drawn.Boxes) > 0 {
		drawn.Reading = reading(b.At, strings.Join(parts, ", "))
		c.Bars = append(c.Bars, drawn)
	}
}

// reading is what is shown when a bar is pointed at.
func reading(at time.Time, counts string) string {
	return at.Format("2 Jan, 15:04 UTC") + ": " + counts
}

// round keeps the page small. A hundredth of a unit is finer than a pixel.
func round(x float64) float64 { return math.Round(x*100) / 100 }

// niceCeiling is the next number from n on that suits a scale: 2, 4, 6 or 10 times
// a power of ten.
func niceCeiling(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, m := range []int64{2, 4, 6, 10} {
			if n <= m*unit {
				return m * unit
			}
		}
	}
}
