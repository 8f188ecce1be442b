package flow

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

var errForeign = errors.New("the message comes from another subscriber: it does not carry what this handler works on")

// errorKeeper is work that remembers why its handler failed.
type errorKeeper interface{ KeepError(error) }

// workKey is the key of a message's work in its context.
type workKey[T any] struct{}

// Message makes a message that carries a subscriber's work in its context; id and
// payload are for people and logs.
func Message[T any](ctx context.Context, id string, payload []byte, work T) *message.Message {
	msg := message.NewMessage(id, payload)
	msg.SetContext(context.WithValue(ctx, workKey[T]{}, work))
	return msg
}

// Work returns the work that Message put into a message. It fails if the message carries no work of
// this type.
func Work[T any](msg *message.Message) (T, error) {
	work, ok := msg.Context().Value(workKey[T]{}).(T)
	if !ok {
		return work, errForeign
	}
	return work, nil
}

// KeepError is a middleware that keeps a handler's error with the work, so that
// the subscriber can record it; Watermill's Nack carries no error. It goes outside
// the middleware that recovers panics.
func KeepError[T errorKeeper](next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		if work, werr := Work[T](msg); err != nil && werr == nil {
			work.KeepError(err)
		}
		return produced, err
	}
}

// RouterLogger returns a logger that logs a Router's errors and information as debug messages. It
// is for a Router whose subscriber logs the failures of handlers itself, in more detail.
func RouterLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{
		slog.LevelInfo:  slog.LevelDebug,
		slog.LevelError: slog.LevelDebug,
	})
}
