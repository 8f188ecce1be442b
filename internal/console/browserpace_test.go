//go:build outside

package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/internal/console/sample"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// The sizes that are compared.
const (
	fewRows  = 10_000
	manyRows = 100_000
	// slack is how many times as long a page may take with many rows. Searches read up to
	// eventlog.SearchWindow rows, five times as many as there are few; a page that reads all
	// takes nearly ten times as long.
	slack = 6.0
	// slackOfADay is that of a statement, which counts every delivery of its day: the sample's
	// workspaces have ten times as many a day, more or fewer by the hour at which the test runs.
	// What it must not do is to take longer than they are more.
	slackOfADay = 12.0
)

// pace is how long a page takes.
type pace struct {
	middle, p95 time.Duration // at the server
	fastest     time.Duration // at the server; a busy machine makes no page faster
	paint       time.Duration // until a browser shows something, at its fastest
}

// TestPagesDoNotGrow visits every page of a workspace with 100,000 deliveries and
// requests, and of one with a tenth of them. With CONSOLE_PICTURES=1 the times are kept
// beside the pictures; ledgerfeed-bench console measures them at the server.
func TestPagesDoNotGrow(t *testing.T) {
	const attempts = 4
	s := setup(t)
	few, many := s.fill("few", fewRows), s.fill("many", manyRows)
	small, large := s.measurer(few), s.measurer(many)
	table := &strings.Builder{}
	fmt.Fprintf(table, "%-60s %9s %9s %9s %9s\n", "page, ms", "p50", "p95", "paint", "ratio")
	paths := few.Addresses()
	for i, path := range many.Addresses() {
		var slow, fast pace
		var ratio float64
		allowed := slack
		if strings.Contains(path, "/statement?day=") {
			allowed = slackOfADay
		}
		for range attempts {
			slow, fast = large.visit(path), small.visit(paths[i])
			ratio = max(float64(slow.fastest)/float64(fast.fastest), float64(slow.paint)/float64(fast.paint))
			if ratio <= allowed {
				break
			}
		}
		fmt.Fprintf(table, "%-60s %9.1f %9.1f %9.0f %9.1f\n", many.Brief(path), ms(slow.middle), ms(slow.p95), ms(slow.paint), ratio)
		if ratio > allowed {
			t.Errorf("%s takes %.1f times as long as with a tenth of the rows, %d times over", path, ratio, attempts)
		}
	}
	t.Log("\n" + table.String())
	if thorough() {
		if err := os.MkdirAll(pictures, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(pictures, "pace.txt"), []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// measurer visits pages of a workspace.
type measurer struct {
	person  *person
	browser *tab
}

func (s *bundle) measurer(w *sample.Workspace) *measurer {
	s.t.Helper()
	return &measurer{s.signIn(w.ID, session.Admin), s.enter(w.ID, session.Admin)}
}

func (m *measurer) visit(path string) pace {
	t := m.person.t
	t.Helper()
	const rounds, paints = 10, 3
	var took []time.Duration
	for range rounds {
		began := time.Now()
		a := m.person.get(path)
		took = append(took, time.Since(began))
		if path != "/sign-in/none" {
			a.status(http.StatusOK)
		}
	}
	slices.Sort(took)
	p := pace{middle: took[rounds/2], p95: took[rounds*95/100], fastest: took[0], paint: time.Hour}
	for range paints {
		m.browser.do(chromedp.Navigate(m.browser.base + path))
		painted := script[float64](m.browser, `new Promise((found) => new PerformanceObserver((list, observer) => {
			const paint = list.getEntriesByName("first-contentful-paint")[0];
			if (paint) { observer.disconnect(); found(paint.startTime); }
		}).observe({type: "paint", buffered: true}))`)
		p.paint = min(p.paint, time.Duration(painted*float64(time.Millisecond)))
	}
	return p
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
