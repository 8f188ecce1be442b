package web

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// barsOf has a bar for each count.
func barsOf(counts ...int64) []Bar {
	bars := Empty(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), time.Hour, len(counts), 1)
	for i, n := range counts {
		bars[i].Counts[0] = n
	}
	return bars
}

// TestSpikeIsCutOff: a few very high bars do not flatten the others, the highest is named, and the
// table has the exact counts.
func TestSpikeIsCutOff(t *testing.T) {
	t.Parallel()
	counts := append(slices.Repeat([]int64{3, 5}, 12), 398, 40)
	c := New("id", "Requests", "requests", barsOf(counts...), []Series{{Name: "Refused", Look: Stripes}})
	if c.Peak == nil || c.Peak.Value != "398" || c.Peak.Bars != 2 || !c.Peak.At.Equal(barsOf(counts...)[24].At) || c.Peak.Anchor != "end" {
		t.Fatalf("the peak is %+v", c.Peak)
	}
	if got := c.Lines[len(c.Lines)-1].Value; got != 10 {
		t.Errorf("the highest line is that of %d", got)
	}
	if usual, cut := c.Bars[1], c.Bars[24]; usual.Boxes[0].H < 40 || usual.Cut != 0 || cut.Cut == 0 || cut.Boxes[0].Y != top {
		t.Errorf("drawn are %+v and %+v", usual, cut)
	}
	if last := c.Rows[24]; last.Counts[0] != 398 || !strings.HasSuffix(c.Summary, "The highest bar is cut off: it has 398.") {
		t.Errorf("the table has %d, the summary is %q", last.Counts[0], c.Summary)
	}
	for _, even := range [][]int64{{400, 3, 3, 3, 3}, {30, 20, 10, 9, 9, 9, 9, 9}, {0, 0, 0, 0, 0, 0, 0, 7}, {0}} {
		if c := New("id", "Requests", "requests", barsOf(even...), []Series{{Name: "Refused", Look: Stripes}}); c.Peak != nil {
			t.Errorf("of %d the highest is cut off", even)
		}
	}
}

// TestBarsStayInTheDrawing: every count has a box that is seen, unless its bar is cut off, and none
// is beyond the drawing.
func TestBarsStayInTheDrawing(t *testing.T) {
	t.Parallel()
	series := []Series{{Name: "Failed", Look: Bad}, {Name: "Succeeded", Look: Good}}
	rapid.Check(t, func(t *rapid.T) {
		bars := Empty(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), time.Hour, rapid.IntRange(1, 60).Draw(t, "bars"), 2)
		for i := range bars {
			for k := range bars[i].Counts {
				bars[i].Counts[k] = rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, 1_000_000)).Draw(t, "count")
			}
		}
		c := New("id", "Attempts", "attempts", bars, series)
		for i, b := range c.Bars {
			want := 0
			for _, n := range c.Rows[i].Counts {
				want += int(min(n, 1))
			}
			if len(b.Boxes) != want && b.Cut == 0 {
				t.Errorf("%+v is drawn as %+v", c.Rows[i], b)
			}
			for _, box := range b.Boxes {
				if box.H <= 0 || box.Y < 0 || box.Y+box.H > height-bottom+0.1 {
					t.Errorf("%+v is drawn as %+v", c.Rows[i], b)
				}
			}
		}
	})
}

// TestBarsAreSeen: bars stand out from the page, and the patterns in them from the bars. What
// failed is told from what succeeded by its lightness alone.
func TestBarsAreSeen(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, found := strings.Cut(string(css), "prefers-color-scheme: dark")
	if !found {
		t.Fatal("the stylesheet has no dark look")
	}
	for _, look := range []string{light, dark} {
		of := func(name string) Colour {
			m := regexp.MustCompile(`--` + name + `: (#\w{6});`).FindStringSubmatch(look)
			if m == nil {
				t.Fatalf("there is no --%s", name)
			}
			return colour(t, m[1])
		}
		for _, name := range []string{"bar-good", "bar-bad", "bar-wait", "bar-grey"} {
			if got := contrast(of(name), of("surface")); got < 3 {
				t.Errorf("--%s has a contrast of %.2f", name, got)
			}
		}
		if got := contrast(of("bar-good"), of("bar-bad")); got < 1.9 {
			t.Errorf("success and failure have a contrast of %.2f", got)
		}
	}
}

// TestEveryFailureHasItsOwnLook: no two series of a chart look the same, and failures come first.
func TestEveryFailureHasItsOwnLook(t *testing.T) {
	t.Parallel()
	for _, list := range [][]Series{RequestSeries(), AttemptSeries()} {
		seen := map[Look]bool{}
		for i, s := range list {
			if seen[s.Look] || (s.Look == Good) != (i == len(list)-1) {
				t.Errorf("%s is drawn as %q", s.Name, s.Look)
			}
			seen[s.Look] = true
		}
	}
}
