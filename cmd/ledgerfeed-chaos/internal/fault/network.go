//go:build linux

package fault

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/badnetwork"
)

func ofNetwork() []*Kind {
	return []*Kind{
		{
			Name: "cut", About: "connections are reset", Weight: 10, aim: aimLink,
			do: func(_ context.Context, _ *Stage, _ *Plan, t target) error { t.link.Cut(); return nil },
		},
		{
			Name: "cut-midway", About: "connections are reset in the middle of an answer", Weight: 8, Shortest: time.Second, Longest: 2 * time.Second, aim: aimLink,
			do: during(func(p *Plan, l *badnetwork.Proxy) { l.CutAfter(int64(p.pick(2, 4000))) }),
		},
		{
			Name: "half-open", About: "connections go silent and stay open; new ones work", Weight: 6, aim: aimLink,
			do: func(_ context.Context, _ *Stage, _ *Plan, t target) error { t.link.Silence(); return nil },
		},
		{
			Name: "partition", About: "nothing gets through for a while, on old connections and new ones", Weight: 3,
			Shortest: time.Second, Longest: 20 * time.Second, aim: aimLink,
			do: during(func(_ *Plan, l *badnetwork.Proxy) { l.Partition() }),
		},
		{
			Name: "refused", About: "connections are refused for a while", Weight: 2,
			Shortest: time.Second, Longest: 5 * time.Second, aim: aimLink,
			do: during(func(_ *Plan, l *badnetwork.Proxy) { l.Refuse(true); l.Cut() }),
		},
		{
			Name: "latency", About: "every piece of data takes 20 to 400 ms", Weight: 6,
			Shortest: 2 * time.Second, Longest: 8 * time.Second, aim: aimLink,
			do: during(func(p *Plan, l *badnetwork.Proxy) { l.Delay(time.Duration(20+p.pick(2, 380)) * time.Millisecond) }),
		},
	}
}

// during breaks a link for as long as the plan says.
func during(breakIt func(*Plan, *badnetwork.Proxy)) func(context.Context, *Stage, *Plan, target) error {
	return func(ctx context.Context, _ *Stage, p *Plan, t target) error {
		breakIt(p, t.link)
		last(ctx, p)
		t.link.Restore()
		return nil
	}
}
