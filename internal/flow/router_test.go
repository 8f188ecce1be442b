package flow_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

type chore struct{ err error }

func (c *chore) KeepError(err error) { c.err = err }

func TestMessageCarriesItsWork(t *testing.T) {
	t.Parallel()
	work := &chore{}
	msg := flow.Message(t.Context(), "m1", []byte("p"), work)
	got, err := flow.Work[*chore](msg)
	if err != nil || got != work || msg.UUID != "m1" || string(msg.Payload) != "p" {
		t.Errorf("work %p of message %s %q, error %v; want %p of m1 \"p\"", got, msg.UUID, msg.Payload, err, work)
	}
	if _, err := flow.Work[chore](msg); err == nil {
		t.Errorf("work of another kind: no error")
	}
}

func TestKeepErrorKeepsWhatTheHandlerSaid(t *testing.T) {
	t.Parallel()
	said := errors.New("said")
	cases := []struct {
		name    string
		handler message.HandlerFunc
		kept    func(error) bool
	}{
		{"success", func(*message.Message) ([]*message.Message, error) { return nil, nil }, func(err error) bool { return err == nil }},
		{"failure", func(*message.Message) ([]*message.Message, error) { return nil, said }, func(err error) bool { return errors.Is(err, said) }},
		{"panic", func(*message.Message) ([]*message.Message, error) { panic("said") }, func(err error) bool { return err != nil }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			work := &chore{}
			_, err := flow.KeepError[*chore](middleware.Recoverer(c.handler))(flow.Message(t.Context(), "m", nil, work))
			if !c.kept(work.err) || !c.kept(err) {
				t.Errorf("kept %v, handed on %v", work.err, err)
			}
		})
	}
	foreign := message.NewMessage("m", nil)
	if _, err := flow.KeepError[*chore](cases[1].handler)(foreign); !errors.Is(err, said) {
		t.Errorf("a message without work: error %v, want the handler's", err)
	}
}

func TestRouterLoggerLogsNothingAboveDebug(t *testing.T) {
	t.Parallel()
	var out testkit.Buffer
	logger := flow.RouterLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	logger.Error("handler failed", errors.New("x"), nil)
	logger.Info("running", nil)
	if out.String() != "" {
		t.Errorf("said %q, want nothing above debug", out.String())
	}
}
