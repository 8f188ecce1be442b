// This file draws stacked bars as SVG. The console's template "chart" renders a Chart.

package web

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
)

// Look is how a series is drawn: filled with a colour, and with a pattern in it. Failures have
// patterns of their own or the strongest colour, so that they are recognised without colours too.
type Look string

// The looks.
const (
	Good    Look = "good"    // no failure
	Pale    Look = "pale"    // no failure, next to Good
	Bad     Look = "bad"     // no pattern
	Stripes Look = "stripes" // stripes in the colour of Bad
	Dots    Look = "dots"
	Cross   Look = "cross" // a grid
	Back    Look = "back"  // stripes the other way
	Level   Look = "level" // level stripes
)

// Patterned reports whether the look has a pattern, which each chart has to define.
func (l Look) Patterned() bool {
	switch l {
	case Good, Pale, Bad:
		return false
	case Stripes, Dots, Cross, Back, Level:
	}
	return true
}

// Series describes one of the counts of each bar.
type Series struct {
	Name string
	One  string // the name for a count of one, if it is another word
	Look Look
}

// The size of a drawing. Horizontal lengths are in per cent of the page's width. Vertical lengths
// are in pixels, so that the drawing and its text have the same height on a phone.
const (
	width  = 100.0
	height = 150.0 // same as .plot in the stylesheet
	bottom = 20.0  // space for the times
	top    = 8.0   // space above the highest line
	beyond = 18.0  // how far bars that are cut off go beyond the highest line
)

// Chart is a drawing, as the template renders it.
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
	Peak    *peak // nil: no bar is cut off
	Rows    []Bar // the bars with counts, for the table
	Empty   bool
	Days    bool // the ticks are days
}

// peak is the highest of the bars that are cut off.
type peak struct {
	X      float64 // its middle
	Y      float64 // where its value is written
	Anchor string  // where X is in the text
	Value  string
	At     time.Time
	Bars   int64 // how many bars are cut off
	sum    int64
}

type legend struct {
	Series
	Total int64
}

// line is a horizontal line of the scale.
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
	Cut     float64 // where a mark says that the bar is cut off; 0: it is not
	Reading string  // the counts in words, shown on hover
}

type box struct {
	Y, H float64
	Look Look
}

// New draws a chart of at least one bar. Each bar has a count for each series. The first series is
// at the bottom, so failures come before what succeeded.
func New(id, title, unit string, bars []Bar, series []Series) *Chart {
	c := &Chart{ID: id, Title: title, Unit: unit, Height: height}
	totals := make([]int64, len(series))
	for i := range bars {
		for k, n := range bars[i].Counts {
			totals[k] += n
		}
		if bars[i].sum() > 0 {
			c.Rows = append(c.Rows, bars[i])
		}
	}
	var parts []string
	for k, s := range series {
		c.Series = append(c.Series, legend{s, totals[k]})
		parts = append(parts, s.counted(totals[k]))
	}
	c.Empty = len(c.Rows) == 0
	a := axisOf(bars, niceCeiling, height-bottom, top, beyond)
	for _, part := range []int64{0, a.limit / 2, a.limit} {
		if n := len(c.Lines); n == 0 || c.Lines[n-1].Value != part {
			c.Lines = append(c.Lines, line{round(a.floor - float64(part)*a.scale), part})
		}
	}
	step := width / float64(len(bars))
	gap := math.Min(0.4, step*0.25)
	for i := range bars {
		c.addBar(&bars[i], float64(i)*step+gap/2, step-gap, a, series)
	}
	for i := 0; i < len(bars); i += max(1, len(bars)/6) {
		c.Ticks = append(c.Ticks, tick{round(float64(i) * step), bars[i].At})
	}
	c.findPeak(bars, a)
	c.summarise(strings.Join(parts, ", "), Count)
	return c
}

// summarise sets the sentence that stands for the drawing. written writes a count.
func (c *Chart) summarise(counts string, written func(int64) string) {
	c.Summary = c.Title + ": " + counts + "."
	if c.Peak != nil {
		c.Peak.Value = written(c.Peak.sum)
		c.Summary += " The highest bar is cut off: it has " + c.Peak.Value + "."
	}
}

// findPeak sets Peak.
func (c *Chart) findPeak(bars []Bar, a axis) {
	for i := range bars {
		sum := bars[i].sum()
		if sum <= a.limit {
			continue
		}
		if c.Peak == nil {
			c.Peak = &peak{Y: round(a.end - 4), Anchor: "middle"}
		}
		c.Peak.Bars++
		if sum > c.Peak.sum {
			c.Peak.sum, c.Peak.At, c.Peak.X = sum, bars[i].At, round((float64(i)+0.5)*width/float64(len(bars)))
		}
	}
	switch {
	case c.Peak == nil:
	case c.Peak.X < width*0.1:
		c.Peak.Anchor = "start"
	case c.Peak.X > width*0.9:
		c.Peak.Anchor = "end"
	}
}

// axis is the vertical scale of a drawing.
type axis struct {
	floor float64 // where 0 is
	end   float64 // where bars end that are higher than limit
	limit int64   // the count of the highest line
	scale float64 // pixels for each
}

// axisOf returns the axis on which every bar is drawn in full, or all but a few that are so much
// higher than the others that these would be flat. ceiling rounds the highest line up. Bars that are
// cut off go beyond it.
func axisOf(bars []Bar, ceiling func(int64) int64, floor, top, beyond float64) axis {
	var sums []int64
	for i := range bars {
		if sum := bars[i].sum(); sum > 0 {
			sums = append(sums, sum)
		}
	}
	slices.Sort(sums)
	a := axis{floor: floor, end: top, limit: 1}
	const few, spike = 6, 4
	if n := len(sums); n > 0 {
		a.limit = sums[n-1]
		if usual := sums[(n-1)*9/10]; n >= few && a.limit > spike*usual {
			a.limit = 2 * usual
			top += beyond
		}
	}
	a.limit = ceiling(a.limit)
	a.scale = (floor - top) / float64(a.limit)
	return a
}

// counted returns a count of the series in words.
func (s *Series) counted(n int64) string {
	many := strings.ToLower(s.Name)
	return Plural(n, cmp.Or(s.One, many), many)
}

// Patterns returns the looks of the chart that have a pattern.
func (c *Chart) Patterns() (list []Look) {
	for i := range c.Series {
		if c.Series[i].Look.Patterned() {
			list = append(list, c.Series[i].Look)
		}
	}
	return list
}

func (c *Chart) addBar(b *Bar, x, w float64, a axis, series []Series) {
	drawn := drawnBar{At: b.At, X: round(x), W: round(w)}
	var parts []string
	y, end := a.floor, 0.0
	if b.sum() > a.limit {
		end = a.end
		drawn.Cut = round((end + a.floor - float64(a.limit)*a.scale) / 2)
	}
	for k, n := range b.Counts {
		if n == 0 {
			continue
		}
		parts = append(parts, series[k].counted(n))
		h := min(math.Max(float64(n)*a.scale, 2), y-end) // visible, however small
		if h <= 0 {
			continue // other boxes of a bar that is cut off fill it
		}
		y -= h
		drawn.Boxes = append(drawn.Boxes, box{round(y), round(h), series[k].Look})
	}
	if len(drawn.Boxes) > 0 {
		drawn.Reading = reading(b.At, strings.Join(parts, ", "))
		c.Bars = append(c.Bars, drawn)
	}
}

// reading returns the text shown when the pointer is over a bar.
func reading(at time.Time, counts string) string {
	return at.Format("2 Jan, 15:04 UTC") + ": " + counts
}

// round keeps the page small. A hundredth of a unit is finer than a pixel.
func round(x float64) float64 { return math.Round(x*100) / 100 }

// niceCeiling returns the smallest number from n on that suits a scale: 2, 4, 6 or 10 times a power
// of ten.
func niceCeiling(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, m := range []int64{2, 4, 6, 10} {
			if n <= m*unit {
				return m * unit
			}
		}
	}
}

// Bar holds the counts of one span of time.
type Bar struct {
	At     time.Time // its start
	Counts []int64   // one per series
}

func (b *Bar) sum() (sum int64) {
	for _, n := range b.Counts {
		sum += n
	}
	return sum
}

// Empty returns n bars without counts, each of the given width. The first one starts at from.
func Empty(from time.Time, width time.Duration, n, series int) []Bar {
	bars := make([]Bar, n)
	for i := range bars {
		bars[i] = Bar{At: from.Add(time.Duration(i) * width).UTC(), Counts: make([]int64, series)}
	}
	return bars
}

// Add adds n to the bar that at falls into. It ignores times outside all bars.
func Add(bars []Bar, at time.Time, width time.Duration, series int, n int64) {
	if at.Before(bars[0].At) {
		return
	}
	if i := int(at.Sub(bars[0].At) / width); i < len(bars) {
		bars[i].Counts[series] += n
	}
}

// Choice is a time range that charts can show, up to now.
type Choice struct {
	Name  string // in addresses
	Label string
	Title string // in titles of charts
	Width time.Duration
	Spans int
}

// Choices returns the time ranges to choose from.
func Choices() []Choice {
	return []Choice{
		{"hour", "1 hour", "in the last hour, by minute", time.Minute, 60},
		{"day", "24 hours", "in the last 24 hours, by hour", time.Hour, 24},
		{"week", "7 days", "in the last 7 days, by 6 hours", 6 * time.Hour, 28},
		{"month", "30 days", "in the last 30 days, by day", 24 * time.Hour, 30},
	}
}

// Choose returns the choice with a name, or else the one named otherwise.
func Choose(name, otherwise string) Choice {
	var found Choice
	for _, c := range Choices() {
		if c.Name == name {
			return c
		}
		if c.Name == otherwise {
			found = c
		}
	}
	return found
}

// Link leads to a page whose charts show a Choice.
type Link struct {
	Label, URL string
	Current    bool
}

// Switch returns a link for each choice. address makes the link's address from the name.
func (c Choice) Switch(address func(name string) string) []Link {
	links := make([]Link, 0, len(Choices()))
	for _, other := range Choices() {
		links = append(links, Link{other.Label, address(other.Name), other.Name == c.Name})
	}
	return links
}

// sparkHeight is the height of a Spark in pixels, same as .spark in the stylesheet.
const sparkHeight = 28.0

// sparkBeyond is how far its bars that are cut off go beyond the others.
const sparkBeyond = 6.0

// Spark is a small drawing of bars without a scale, next to the name of its subject. The console's
// template "spark" renders it.
type Spark struct {
	ID      string
	Summary string // the totals in a sentence
	Bars    []drawnBar
}

// NewSpark draws at least one bar; nil: all counts are 0.
func NewSpark(id, title, unit string, bars []Bar, series []Series) *Spark {
	c := New(id, title, unit, bars, series)
	if c.Empty {
		return nil
	}
	exactly := func(n int64) int64 { return n }
	small, a := &Chart{}, axisOf(bars, exactly, sparkHeight, 3, sparkBeyond)
	step := width / float64(len(bars))
	for i := range bars {
		small.addBar(&bars[i], float64(i)*step, step*0.8, a, series)
	}
	return &Spark{ID: id, Summary: c.Summary, Bars: small.Bars}
}

// NewTimes draws medians and 95th percentiles of durations: two counts of milliseconds for each
// bar, the second at least as large as the first. half and most are the values for all bars
// together.
func NewTimes(id, title, unit string, bars []Bar, half, most int64) *Chart {
	stacked := make([]Bar, len(bars))
	for i, b := range bars {
		stacked[i] = Bar{At: b.At, Counts: []int64{b.Counts[0], b.Counts[1] - b.Counts[0]}}
	}
	c := New(id, title, unit, stacked, []Series{{Name: "p50 (ms)", Look: Good}, {Name: "p95 (ms)", Look: Pale}})
	c.Series[0].Total, c.Series[1].Total = half, most
	c.summarise("p50 "+Millis(half)+", p95 "+Millis(most), Millis)
	c.Rows = nil
	for _, b := range bars {
		if b.Counts[1] > 0 {
			c.Bars[len(c.Rows)].Reading = reading(b.At, "p50 "+Millis(b.Counts[0])+", p95 "+Millis(b.Counts[1]))
			c.Rows = append(c.Rows, b)
		}
	}
	return c
}

// ByDay sets whether the times under the bars are days, for charts of several days. It returns c.
func (c *Chart) ByDay(days bool) *Chart {
	c.Days = days
	return c
}

// NewShares draws a percentage for each bar.
func NewShares(id, title, unit string, bars []Bar, series Series) *Chart {
	c := New(id, title, unit, bars, []Series{series})
	var highest int64
	for _, b := range bars {
		highest = max(highest, b.Counts[0])
	}
	c.Series[0].Total = highest
	c.summarise(Count(highest)+" % at most", func(n int64) string { return Count(n) + " %" })
	for i := range c.Bars {
		c.Bars[i].Reading = reading(c.Bars[i].At, Count(c.Rows[i].Counts[0])+" %")
	}
	return c
}

// The series of a chart of requests, in their order.
const (
	ServerError = iota
	ClientError
	Refused
	Succeeded
)

// RequestSeries returns the series of a chart of requests.
func RequestSeries() []Series {
	return []Series{
		{Name: "Server errors", One: "server error", Look: Bad}, {Name: "Client errors", One: "client error", Look: Dots},
		{Name: "Refused", Look: Stripes}, {Name: "Succeeded", Look: Good},
	}
}

// The series of a chart of delivery attempts, in their order.
const (
	AttemptFailed = iota
	AttemptSucceeded
)

// AttemptSeries returns the series of a chart of delivery attempts.
func AttemptSeries() []Series {
	return []Series{{Name: "Failed", Look: Bad}, {Name: "Succeeded", Look: Good}}
}

// OfKind returns the series for requests of a kind, as rollup.Reader.Requests counts them.
func OfKind(kind string) int {
	switch kind {
	case rollup.KindClientError:
		return ClientError
	case rollup.KindServerError:
		return ServerError
	case rollup.KindRefused:
		return Refused
	}
	return Succeeded
}
