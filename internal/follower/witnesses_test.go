package follower_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/follower"
	"github.com/ledgerfeed/ledgerfeed/internal/follower/followertest"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// witnessKey is the key of a witness; what kind of key it is does not matter to a follower.
type witnessKey struct {
	signer note.Signer
	key    note.Verifier
}

func newWitnessKey(t *testing.T, name string) witnessKey {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	return witnessKey{testkit.Must(note.NewSigner(secret))(t), testkit.Must(note.NewVerifier(public))(t)}
}

// line is the line that the witness adds to a note.
func (w witnessKey) line(t *testing.T, signed string) string {
	text := signed[:strings.LastIndex(signed, "\n\n")+1]
	cosigned := testkit.Must(note.Sign(&note.Note{Text: text}, w.signer))(t)
	return string(cosigned[len(text)+1:])
}

// TestWitnesses: events are handed on when as many witnesses as are needed have cosigned the
// checkpoint, and not before.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	a, b, stranger := newWitnessKey(t, "a.example.com"), newWitnessKey(t, "b.example.com"), newWitnessKey(t, "c.example.com")
	keys := []note.Verifier{a.key, b.key}
	for name, c := range map[string]struct {
		needed int
		add    func(signed string, asked int) string
		want   string // a part of the report, or of the difference
		fails  bool
	}{
		"one of two":              {needed: 1, add: func(s string, _ int) string { return a.line(t, s) }, want: "cosigned by a.example.com, which"},
		"both":                    {needed: 2, add: func(s string, _ int) string { return a.line(t, s) + b.line(t, s) }, want: "cosigned by a.example.com and b.example.com, which"},
		"one of both":             {needed: 2, add: func(s string, _ int) string { return b.line(t, s) }, want: "needs the cosignatures of 2 of the witnesses a.example.com, b.example.com, and has b.example.com", fails: true},
		"the same one twice":      {needed: 2, add: func(s string, _ int) string { return b.line(t, s) + b.line(t, s) }, want: "and has b.example.com", fails: true},
		"somebody else":           {needed: 1, add: func(s string, _ int) string { return stranger.line(t, s) }, want: "and has none", fails: true},
		"nobody":                  {needed: 1, add: func(string, int) string { return "" }, want: "and has none", fails: true},
		"of another checkpoint":   {needed: 1, add: func(s string, _ int) string { return a.line(t, strings.Replace(s, "/events", "/other", 1)) }, want: "and has none", fails: true},
		"one wrong and one right": {needed: 1, add: func(s string, _ int) string { return a.line(t, "x"+s) + b.line(t, s) }, want: "cosigned by b.example.com, which"},
		"later": {needed: 1, add: func(s string, asked int) string {
			if asked < 4 {
				return ""
			}
			return a.line(t, s)
		}, want: "cosigned by a.example.com, which"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := followertest.New(t)
			feed := followertest.Some(120)
			s.Show(feed, 120, 120)
			s.HoldNothing()
			asked := 0
			s.Tamper(func(answer *followertest.Answer) {
				if strings.HasSuffix(answer.Path, "/checkpoint") && answer.Status == 200 {
					asked++
					answer.Body += c.add(answer.Body, asked)
				}
			})
			r := newRun(t, s)
			r.witnesses = follower.Witnesses{Keys: keys, Needed: c.needed}
			report, err := r.follow(t.Context())
			if !c.fails {
				if err != nil || r.lines.String() != feed.Lines(120) || !strings.Contains(report.String(), c.want) {
					t.Errorf("%s: %v", report, err)
				}
				return
			}
			var d *follower.DifferenceError
			if !errors.As(err, &d) || !strings.Contains(d.Sentence, c.want) || d.Seen == nil {
				t.Errorf("want a difference with %q, got %v", c.want, err)
			}
			if r.lines.Len() > 0 {
				t.Errorf("handed on was %s", r.lines.String())
			}
		})
	}
}

// TestWitnessesAreAskedForLater: what was accepted without cosignatures proves nothing more
// where they are asked for, and is still what the next checkpoint has to extend.
func TestWitnessesAreAskedForLater(t *testing.T) {
	t.Parallel()
	a := newWitnessKey(t, "a.example.com")
	s := followertest.New(t)
	feed := followertest.Some(60)
	s.Show(feed, 20, 60)
	s.HoldNothing()
	r := newRun(t, s)
	if report, err := r.follow(t.Context()); err == nil || report.Size != 60 || report.Proven.Next != 20 {
		t.Fatalf("%+v: %v", report, err) // events are withheld: 20 are shown of 60
	}
	s.Show(feed, 60, 60)
	r.witnesses = follower.Witnesses{Keys: []note.Verifier{a.key}, Needed: 1}
	var d *follower.DifferenceError
	if report, err := r.follow(t.Context()); !errors.As(err, &d) || !strings.Contains(d.Sentence, "is cosigned") || report.Proven.Next != 20 {
		t.Fatalf("%+v: %v", report, err)
	}
	s.Tamper(func(answer *followertest.Answer) {
		if strings.HasSuffix(answer.Path, "/checkpoint") && answer.Status == 200 {
			answer.Body += a.line(t, answer.Body)
		}
	})
	if report, err := r.follow(t.Context()); err != nil || report.Proven.Next != 60 || report.Earliest != 60 || len(report.Cosigned) != 1 {
		t.Fatalf("%+v: %v", report, err)
	}
	s.Show(feed.With(7, followertest.Event(7, "other")), 60, 60)
	if _, err := r.follow(t.Context()); !errors.As(err, &d) {
		t.Errorf("another tree of the same size, cosigned, gives %v", err)
	}
}
