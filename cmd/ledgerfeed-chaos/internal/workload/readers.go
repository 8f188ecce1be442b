//go:build linux

package workload

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
)

// Readers ask every process all the time, and see when there is no answer.
type Readers struct {
	*env

	mu   sync.Mutex
	last map[string]time.Time // by reader, the last good answer
	gaps []check.Gap
}

// Anybody is the reader who asks another process when one does not answer.
const Anybody = "anybody"

const (
	readEvery   = 100 * time.Millisecond
	readTimeout = time.Second
	// shortestGap is the shortest time without an answer that is noted.
	shortestGap = 500 * time.Millisecond
)

func newReaders(e *env) *Readers {
	return &Readers{env: e, last: map[string]time.Time{}}
}

func (r *Readers) run(ctx context.Context) {
	var all sync.WaitGroup
	now := time.Now()
	r.last[Anybody] = now
	for _, p := range r.cluster.Processes {
		r.last[p.Name] = now
	}
	for _, p := range r.cluster.Processes {
		all.Go(func() { r.ask(ctx, p) })
	}
	all.Wait()
}

// ask asks one process. A caller that may ask any process has an answer when one of them
// gives it.
func (r *Readers) ask(ctx context.Context, p *cluster.Process) {
	client := &http.Client{Timeout: readTimeout}
	every := time.NewTicker(readEvery)
	defer every.Stop()
	for {
		status, _, err := get(ctx, client, p.API+"/v1/clients?limit=1", r.keys[Canary][check.Sight{}])
		if err == nil && status == http.StatusOK {
			r.good(p.Name)
			r.good(Anybody)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (r *Readers) good(reader string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.last[reader]) > shortestGap {
		r.gaps = append(r.gaps, check.Gap{Who: reader, From: r.last[reader], To: now})
	}
	r.last[reader] = now
}

// Gaps are the times without an answer; one that has not ended ends now.
func (r *Readers) Gaps() []check.Gap {
	r.mu.Lock()
	defer r.mu.Unlock()
	gaps := append([]check.Gap(nil), r.gaps...)
	now := time.Now()
	for reader, last := range r.last {
		if now.Sub(last) > shortestGap {
			gaps = append(gaps, check.Gap{Who: reader, From: last, To: now})
		}
	}
	return gaps
}

// Answers tells whether these readers have had an answer since a moment: names of
// processes, or Anybody.
func (r *Readers) Answers(since time.Time, readers ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reader := range readers {
		if r.last[reader].Before(since) {
			return false
		}
	}
	return true
}

// flood has many readers of one workspace ask the same without a pause, until ctx ends.
func (e *env) flood(ctx context.Context, workspace string, readers int, paths []string) {
	client := &http.Client{Timeout: followTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: readers}}
	defer client.CloseIdleConnections()
	key := e.keys[workspace][check.Sight{Pay: true, Margin: true}]
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				process := e.cluster.Processes[n%len(e.cluster.Processes)]
				_, _, _ = get(ctx, client, process.API+paths[n%len(paths)], key)
			}
		})
	}
	all.Wait()
}
