// Package flow holds what the rooms that run a Watermill Router do alike: the
// value that a message stands for, the error that Nack cannot carry, the
// Router's voice, and waiting.
package flow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// ErrForeign says that a message does not carry what its handler works on.
var ErrForeign = errors.New("the message comes from another subscriber: it does not carry what this handler works on")

// ErrorKeeper is work that remembers why its handler failed.
type ErrorKeeper interface{ KeepError(error) }

type carried[T any] struct{}

// Message makes the message that stands for work of a subscriber.
func Message[T any](ctx context.Context, id string, payload []byte, work T) *message.Message {
	msg := message.NewMessage(id, payload)
	msg.SetContext(context.WithValue(ctx, carried[T]{}, work))
	return msg
}

// Work returns what a message stands for; the error is ErrForeign.
func Work[T any](msg *message.Message) (T, error) {
	work, ok := msg.Context().Value(carried[T]{}).(T)
	if !ok {
		return work, ErrForeign
	}
	return work, nil
}

// KeepError is a middleware that keeps a handler's error with the work, so
// that the record of a failure can say what happened; Watermill's Nack cannot.
// It goes outside of the middleware that recovers panics.
func KeepError[T ErrorKeeper](next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		if work, werr := Work[T](msg); err != nil && werr == nil {
			work.KeepError(err)
		}
		return produced, err
	}
}

// Quietly is a Router's voice where the subscriber reports by itself, and
// better, what a handler could not do.
func Quietly(logger *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{
		slog.LevelInfo:  slog.LevelDebug,
		slog.LevelError: slog.LevelDebug,
	})
}

// Pause waits, and reports false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
