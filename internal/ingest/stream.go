// This file is a Source that reads a stream of NATS JetStream, in the stream's order.

package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
)

const (
	// streamBatchSize and batchBytes bound the messages in memory.
	streamBatchSize = 1000
	batchBytes      = 8 << 20

	// idleWait is how long Next waits for the first message, lingerWait for each further one, and
	// gatherTime for all further ones together: when messages come steadily, the first must not
	// wait until the batch is full.
	idleWait   = time.Second
	lingerWait = 500 * time.Microsecond
	gatherTime = 5 * time.Millisecond

	// checkInterval is how often to check that the stream is still the same. Its reader does not
	// notice if the stream is deleted and created again.
	checkInterval = 10 * time.Second

	// askTimeout bounds one request to the broker.
	askTimeout = 5 * time.Second

	// streamMaxUUID bounds the UUID of a dead letter, in bytes, because it goes into a header.
	streamMaxUUID = 255

	// streamDeadSuffix is appended to a subject to name the subject of its dead letters, which have
	// a stream of their own.
	streamDeadSuffix = "_dead"
)

// StreamConfig configures a StreamSource.
type StreamConfig struct {
	Target *relay.Target // the source reads the messages below its Subject
	Name   string        // of the source, under which its position is stored
	Pool   pg.DB         // of the log's database; dead letters do not need it
	Broker relay.BrokerConfig
}

// StreamSource is a Source that reads a stream. Its position is in the log's database. A process
// moves it only from where it has read itself: if another process was faster, this one starts again
// after it.
type StreamSource struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	target   *relay.Target
	position position

	reader   jetstream.Consumer        // nil: not made yet
	messages jetstream.MessagesContext // of reader
	at       uint64                    // sequence of the last message that is done
	read     uint64                    // sequence of the last message that was read
	created  time.Time                 // when the reader's stream was created
	held     time.Time                 // when this process last renewed its hold
	checked  time.Time                 // when the stream was last checked
	format   wmnats.NATSMarshaler
}

// OpenStream prepares to read a stream; it does not wait for the broker.
func OpenStream(cfg StreamConfig) (*StreamSource, error) {
	conn, err := relay.Connect(cfg.Target, cfg.Broker)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("prepare to read: %w", err)
	}
	return &StreamSource{conn: conn, js: js, target: cfg.Target, position: position{cfg.Pool, cfg.Name, uuid.NewString()}}, nil
}

// Close closes the connection.
func (s *StreamSource) Close() {
	s.forget()
	s.conn.Close()
}

// forget drops the reader, so that the next read starts after the last message that is done.
func (s *StreamSource) forget() {
	if s.messages != nil {
		s.messages.Stop()
	}
	s.reader, s.messages = nil, nil
}

// Next returns the next messages, or nil if there are none or another process reads.
func (s *StreamSource) Next(ctx context.Context) (*Batch, error) {
	if s.messages == nil || time.Since(s.held) > holdAgain {
		if held, err := s.hold(ctx); err != nil || !held {
			return nil, err
		}
	}
	if time.Since(s.checked) > checkInterval {
		if err := s.check(ctx); err != nil {
			s.forget()
			return nil, err
		}
	}
	b, err := s.gather(ctx)
	if err != nil {
		s.forget()
		return nil, err
	}
	return b, nil
}

// hold makes this process the one that reads, unless another process is. It makes a new reader if
// there is none or if another process has read meanwhile.
func (s *StreamSource) hold(ctx context.Context) (held bool, err error) {
	began := time.Now() // not the injected clock: this is compared with the database's
	at, created, held, err := s.position.hold(ctx)
	if err != nil {
		return false, err
	}
	if !held {
		s.forget()
		flow.Sleep(ctx, idleWait)
		return false, nil
	}
	s.held = began
	if s.messages == nil || at != s.at {
		if err := s.begin(ctx, at, created); err != nil {
			s.forget()
			return false, err
		}
	}
	return true, nil
}

// begin makes a reader that starts after a sequence, or at the beginning if the stream was created
// again.
func (s *StreamSource) begin(ctx context.Context, at uint64, created time.Time) error {
	s.forget()
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, made, err := s.ask(limited)
	if err != nil {
		return err
	}
	if !made.Equal(created) {
		if err := s.position.restart(limited, at, made); err != nil {
			return err
		}
		at = 0
	}
	s.at, s.read, s.created = at, at, made
	s.reader, err = stream.OrderedConsumer(limited, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{s.target.Subject + ".>"}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: at + 1,
	})
	if err == nil {
		s.messages, err = s.reader.Messages(jetstream.PullMaxBytes(batchBytes))
	}
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", s.target.Stream, err)
	}
	return nil
}

// ask looks the stream up, and when it was created.
func (s *StreamSource) ask(ctx context.Context) (stream jetstream.Stream, made time.Time, err error) {
	s.checked = time.Now() // not the injected clock: this limits the load on the broker
	if !s.conn.IsConnected() {
		return nil, made, s.away()
	}
	stream, err = s.js.Stream(ctx, s.target.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, made, fmt.Errorf("the broker at %s has no stream %s: make it, or correct stream in %s", s.target.Hosts(), s.target.Stream, setting)
	}
	if err != nil {
		return nil, made, fmt.Errorf("look for the stream %s: %w", s.target.Stream, err)
	}
	return stream, stream.CachedInfo().Created.Truncate(time.Microsecond), nil
}

// check makes a new reader if the stream was created again.
func (s *StreamSource) check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, made, err := s.ask(limited)
	if err != nil || made.Equal(s.created) {
		return err
	}
	return s.begin(ctx, s.at, s.created)
}

// gather collects messages until there are enough, or no more come.
func (s *StreamSource) gather(ctx context.Context) (*Batch, error) {
	b := &Batch{}
	before, bytes := s.at, 0
	var first time.Time // not the injected clock: this limits the load on the database
	for wait := idleWait; len(b.Messages) < streamBatchSize && bytes < batchBytes && ctx.Err() == nil; wait = lingerWait {
		if len(b.Messages) == 1 {
			first = time.Now()
		} else if len(b.Messages) > 1 && time.Since(first) > gatherTime {
			break
		}
		msg, err := s.messages.Next(jetstream.NextMaxWait(wait))
		if errors.Is(err, nats.ErrTimeout) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the stream %s: %w", s.target.Stream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read the stream %s: %w", s.target.Stream, err)
		}
		bytes += len(msg.Data())
		s.read = meta.Sequence.Stream
		b.Messages = append(b.Messages, s.message(msg.Subject(), msg.Headers(), msg.Data(), strconv.FormatUint(s.read, 10)))
	}
	if len(b.Messages) == 0 {
		if !s.conn.IsConnected() {
			return nil, s.away()
		}
		return nil, nil
	}
	after := s.read
	b.Done = func(ctx context.Context, dead []Dead) error {
		err := s.done(ctx, before, after, dead)
		if err != nil {
			s.forget()
		}
		return err
	}
	b.Release = func(context.Context) { s.forget() }
	return b, nil
}

// away says that there is no connection to the broker, and what to do.
func (s *StreamSource) away() error {
	what := "check that NATS runs there, that " + setting + " has the right host and port, and that no firewall is between"
	err := s.conn.LastError()
	switch {
	case err == nil:
		err = nats.ErrNoServers
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		what = "correct the user, the password or creds in " + setting
	}
	return fmt.Errorf("there is no connection to the message broker at %s, which %s names: %w; %s", s.target.Hosts(), setting, err, what)
}

// metadataSequence is the metadata key for a message's sequence in the stream.
const metadataSequence = "stream_sequence"

// message converts a NATS message to Watermill's. The Nats-Msg-Id replaces a missing UUID.
func (s *StreamSource) message(subject string, header nats.Header, data []byte, sequence string) Message {
	m := Message{Subject: subject, Headers: headers(header)}
	m.Tokens = strings.Split(strings.TrimPrefix(m.Subject, s.target.Subject+"."), ".")
	var err error
	m.Message, err = s.format.Unmarshal(&nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		m.Message, m.Fault = message.NewMessage("", data), fmt.Errorf("the message cannot be read: %w", err)
	}
	if m.UUID == "" {
		m.UUID = header.Get(nats.MsgIdHdr)
	}
	m.Metadata.Set(metadataSequence, sequence)
	return m
}

// headers returns a message's headers as JSON, with a list of values for each name; nil: none.
func headers(h nats.Header) []byte {
	if len(h) == 0 {
		return nil
	}
	text, err := json.Marshal(h)
	if err != nil { // cannot happen: they are strings
		return nil
	}
	return text
}

// done publishes dead letters and moves the position.
func (s *StreamSource) done(ctx context.Context, before, after uint64, dead []Dead) error {
	for i := range dead {
		// The id has the time the stream was created, because a stream that is created again reuses
		// sequences.
		id := fmt.Sprintf("%s/%d/%s", s.target.Stream, s.created.UnixMicro(), dead[i].Message.Metadata.Get(metadataSequence))
		if err := s.bury(ctx, &dead[i], jetstream.WithMsgID(id)); err != nil {
			return err
		}
	}
	if err := s.position.move(ctx, before, after); err != nil {
		return err
	}
	s.at = after
	return nil
}

// bury publishes a dead letter. If the broker refuses its size, it publishes the letter without the
// payload and the headers: the message stays in its own stream.
func (s *StreamSource) bury(ctx context.Context, d *Dead, options ...jetstream.PublishOpt) error {
	letter := d.Letter()
	out := nats.NewMsg(s.deadSubject())
	out.Data = letter.Payload
	if len(d.Message.UUID) <= streamMaxUUID {
		out.Header.Set(wmnats.WatermillUUIDHdr, d.Message.UUID)
	}
	for name, value := range letter.Metadata {
		out.Header.Set(name, value)
	}
	out.Header.Set(metadataSequence, d.Message.Metadata.Get(metadataSequence))
	_, err := s.js.PublishMsg(ctx, out, options...)
	if tooLarge(err) && len(out.Data) > 0 {
		out.Header.Set(MetadataCut, fmt.Sprintf("the payload (%d bytes) and the headers", len(out.Data)))
		out.Header.Del(MetadataHeaders)
		out.Data = nil
		_, err = s.js.PublishMsg(ctx, out, options...)
	}
	if err != nil {
		return fmt.Errorf("publish a dead letter to %s, which a stream has to have: %w", out.Subject, err)
	}
	return nil
}

// tooLarge reports whether a server or a stream refused a message because of its size.
func tooLarge(err error) bool {
	if errors.Is(err, nats.ErrMaxPayload) {
		return true
	}
	of, ok := errors.AsType[*jetstream.APIError](err)
	return ok && of.ErrorCode == codeTooLarge
}

// Held is of Source: nothing holds up a stream's messages.
func (*StreamSource) Held(context.Context, time.Duration) (*Held, error) { return nil, nil }

// codeTooLarge is JetStream's error code for a message that is larger than its stream allows.
const codeTooLarge = 10054

// Lag returns how many messages the reader has not received yet; -1: unknown.
func (s *StreamSource) Lag(ctx context.Context) (int64, error) {
	if s.reader == nil {
		return -1, nil
	}
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := s.reader.Info(limited)
	if err != nil {
		return -1, fmt.Errorf("ask for the lag: %w", err)
	}
	return int64(info.NumPending), nil
}
