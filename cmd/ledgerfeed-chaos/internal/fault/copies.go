//go:build linux

package fault

import (
	"context"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/copies"
)

// Claims of things of Copies.
const (
	claimCopy       = "copy "
	claimCopyServer = "copy server"
)

func hasCopies(s *Stage) bool { return s.Copies != nil }

func chosenCopy(s *Stage, p *Plan) *copies.Copy {
	return s.Copies.List[p.pick(1, len(s.Copies.List))]
}

func aimCopy(s *Stage, p *Plan) target {
	chosen := chosenCopy(s, p)
	return target{detail: chosen.Name, claims: []string{claimCopy + chosen.Name}, beside: chosen.Process}
}

func aimCopyServer(s *Stage, _ *Plan) target {
	return target{
		detail: "PostgreSQL of a copy", claims: []string{claimCopyServer},
		touches: []string{s.Copies.InServer.Name}, // it ends if it is just starting
	}
}

func ofCopies() []*Kind {
	return []*Kind{
		{Name: "kill-copy", About: "kill -9 of a process that keeps a copy", Weight: 6, possible: hasCopies, aim: aimCopy, do: kill},
		{
			Name: "change-copy-key", About: "a copy gets a key with other permissions", Weight: 2, possible: hasCopies, aim: aimCopy,
			do: func(_ context.Context, s *Stage, p *Plan, _ target) error { return chosenCopy(s, p).ChangeKey() },
		},
		{
			Name: "kill-copy-postgres", About: "kill -9 of the PostgreSQL of a copy, and a restart", Weight: 2, possible: hasCopies, aim: aimCopyServer,
			do: func(ctx context.Context, s *Stage, _ *Plan, _ target) error {
				s.Copies.Server.Kill()
				return s.Copies.Server.Start(ctx)
			},
		},
	}
}

// IsOfCopies reports whether a kind is about Copies alone.
func IsOfCopies(kind string) bool {
	return slices.ContainsFunc(ofCopies(), func(k *Kind) bool { return k.Name == kind })
}
