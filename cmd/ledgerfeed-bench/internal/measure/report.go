package measure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// Figure is one measurement and what it is held against.
type Figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Limit   float64 `json:"limit,omitempty"` // in the same unit; 0: none
	LimitIs string  `json:"limit_is,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"` // Value / Limit
	Target  string  `json:"target,omitempty"`
	Reached *bool   `json:"reached,omitempty"`
}

// Report prints figures: lines as they come, or one JSON array at the end.
type Report struct {
	out     io.Writer
	json    bool
	figures []Figure
}

// NewReport makes a report to out.
func NewReport(out io.Writer, asJSON bool) *Report { return &Report{out: out, json: asJSON} }

// Add prints a figure.
func (r *Report) Add(f Figure) {
	if f.Limit > 0 {
		f.Ratio = f.Value / f.Limit
	}
	r.figures = append(r.figures, f)
	if r.json {
		return
	}
	fmt.Fprintf(r.out, "%-62s %12s %s\n", f.Name, Number(f.Value), f.Unit)
	if f.Limit > 0 {
		fmt.Fprintf(r.out, "    limit  %-51s %12s %s, ratio %.2f\n", f.LimitIs, Number(f.Limit), f.Unit, f.Ratio)
	}
	if f.Reached != nil {
		word := "reached"
		if !*f.Reached {
			word = "NOT reached"
		}
		fmt.Fprintf(r.out, "    target %-51s %12s\n", f.Target, word)
	}
}

// Close prints the JSON array, if that is the form.
func (r *Report) Close() error {
	if !r.json {
		return nil
	}
	enc := json.NewEncoder(r.out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r.figures); err != nil {
		return fmt.Errorf("cannot print the figures: %w", err)
	}
	return nil
}

// AtLeast states a target for the value itself.
func (f Figure) AtLeast(target float64) Figure {
	f.Target = "at least " + Number(target) + " " + f.Unit
	reached := f.Value >= target
	f.Reached = &reached
	return f
}

// Below states a target that the value must not reach.
func (f Figure) Below(target float64) Figure {
	f.Target = "below " + Number(target) + " " + f.Unit
	reached := f.Value < target
	f.Reached = &reached
	return f
}

// RatioAtLeast states a target for value over limit.
func (f Figure) RatioAtLeast(target float64) Figure {
	f.Target = fmt.Sprintf("at least %.2f of the limit", target)
	reached := f.Limit > 0 && f.Value/f.Limit >= target
	f.Reached = &reached
	return f
}

// RatioAtMost states a bound for value over limit.
func (f Figure) RatioAtMost(bound float64) Figure {
	f.Target = fmt.Sprintf("at most %.2f of the limit", bound)
	reached := f.Limit > 0 && f.Value/f.Limit <= bound
	f.Reached = &reached
	return f
}

// RatioWithin states that value and limit are to be the same, give or take a share
// of the limit.
func (f Figure) RatioWithin(slack float64) Figure {
	f.Target = fmt.Sprintf("the same, give or take %.0f %%", 100*slack)
	reached := f.Limit > 0 && math.Abs(f.Value/f.Limit-1) <= slack
	f.Reached = &reached
	return f
}

// Number prints with thousands apart and no more digits than mean something.
func Number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	digits := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Quantile of unsorted durations, in milliseconds.
func Quantile(list []time.Duration, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(list))
	return float64(sorted[int(q*float64(len(sorted)-1))]) / float64(time.Millisecond)
}

// Median is the middle of some figures; of an even number, the upper of the two in
// the middle.
func Median(rounds []float64) float64 {
	return MedianBy(rounds, func(figure float64) float64 { return figure })
}

// MedianBy is the round with the Median of a figure.
func MedianBy[T any](rounds []T, figure func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b T) int { return cmp.Compare(figure(a), figure(b)) })
	return sorted[len(sorted)/2]
}
