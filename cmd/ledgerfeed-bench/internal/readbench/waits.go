package readbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/workload"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

const (
	waitsOpen       = 10_000
	waitsOfKey      = 10  // that one key may have
	waitsPerConn    = 100 // over one connection of HTTP/2
	waitsWorkspaces = 10

	// The waits are of 20 to 30 seconds, so that they do not all end together.
	shortestWait, waitsSpread = 20, 11
)

// waits measures 10,000 requests that wait: what one takes, and how soon one is answered
// after an append, with the projector running and 100 appends a second.
func waits(ctx context.Context, r *reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := workload.StartProjector(ctx, r.Database)
	if err != nil {
		return err
	}
	open := r.Size(waitsOpen, 2*waitsPerConn)
	least, err := leastMemory(ctx, r, open)
	if err != nil {
		return err
	}
	requests, err := r.waiting(ctx, open/waitsOfKey)
	if err != nil {
		return err
	}
	r.Say("opening %d requests that wait", open)
	taken, err := memoryOf(ctx, r.cached.Address, open, func(i int) api.Request { return requests[i/waitsOfKey] }, func() int {
		n, _ := r.cached.Handler.Waits()
		return n
	})
	if err != nil {
		return err
	}
	r.Report.Add(measure.Figure{
		Name:  fmt.Sprintf("memory of a request that waits, %s over %d connections", measure.Number(float64(open)), open/waitsPerConn),
		Value: taken, Unit: "KiB",
		Limit: least, LimitIs: "a handler that does nothing but wait, on the same server of net/http",
	}.Below(10))
	err = r.waitLatency(ctx)
	stop()
	return errors.Join(err, <-ended)
}

// leastMemory is what a request takes whose handler only waits for its end, in KiB: the
// server's own part, which no handler can do anything about.
func leastMemory(ctx context.Context, r *reader, open int) (float64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var waiting atomic.Int64
	server := readapi.NewServer(r.cached.Handler, slog.New(slog.DiscardHandler))
	server.Handler = http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		waiting.Add(1)
		<-req.Context().Done()
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("cannot listen: %w", err)
	}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	key := strings.Repeat("k", 40) // as long as one of the API
	return memoryOf(ctx, listener.Addr().String(), open, func(int) api.Request {
		return api.Request{Path: "/v1/events?limit=100&cursor=" + strings.Repeat("c", 40), Key: key}
	}, func() int { return int(waiting.Load()) })
}

// memoryOf opens requests that wait, and returns what each takes, in KiB.
func memoryOf(ctx context.Context, address string, open int, request func(int) api.Request, waiting func() int) (float64, error) {
	before := held()
	failed := make(chan error, 1+open/waitsPerConn)
	for i := range open / waitsPerConn {
		c, err := dialHTTP2(ctx, address)
		if err != nil {
			return 0, err
		}
		var streams []api.Request
		for n := range waitsPerConn {
			streams = append(streams, request(i*waitsPerConn+n))
		}
		go func() { failed <- c.keepOpen(ctx, streams) }()
	}
	if err := awaitWaits(ctx, waiting, open, failed); err != nil {
		return 0, err
	}
	return (held() - before) / float64(open) / 1024, nil
}

// waiting makes keys in some workspaces, and returns for each the request that waits at
// the end of the events.
func (r *reader) waiting(ctx context.Context, keys int) (list []api.Request, err error) {
	cursors := map[string]string{}
	for i := range keys {
		w := fmt.Sprintf("quiet-%d", i%waitsWorkspaces)
		if cursors[w] == "" {
			if _, err := r.Log.Append(ctx, workload.Reversed(w, "first")); err != nil {
				return nil, err
			}
		}
		q := api.Request{Path: "/v1/events?limit=100"}
		if q.Key, err = r.cached.NewKey(ctx, w); err != nil {
			return nil, err
		}
		if cursors[w] == "" {
			if err := workload.AwaitProjected(ctx, r.Database); err != nil {
				return nil, err
			}
			if cursors[w], err = r.cached.CursorAfter(ctx, q, 10); err != nil {
				return nil, err
			}
		}
		q.Path += "&cursor=" + cursors[w]
		list = append(list, q)
	}
	return list, nil
}

// awaitWaits waits until so many requests wait.
func awaitWaits(ctx context.Context, waiting func() int, open int, failed <-chan error) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	late := time.After(time.Minute)
	for waiting() < open {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return fmt.Errorf("a connection has ended: %w", err)
		case <-late:
			return fmt.Errorf("%d requests wait after a minute, not %d", waiting(), open)
		case <-poll.C:
		}
	}
	return nil
}

// held is the memory in use after collections, in bytes, stacks included.
func held() float64 {
	var m runtime.MemStats
	for range 4 { // each lets a stack that is hardly used shrink by half
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// http2Caller is one connection over HTTP/2. It takes little memory itself, because it is
// in the process that is measured.
type http2Caller struct {
	conn    net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	headers bytes.Buffer
	next    uint32
}

func dialHTTP2(ctx context.Context, address string) (*http2Caller, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	c := &http2Caller{conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	c.encoder = hpack.NewEncoder(&c.headers)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, fmt.Errorf("cannot begin HTTP/2: %w", err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		return nil, fmt.Errorf("cannot begin HTTP/2: %w", err)
	}
	return c, nil
}

// keepOpen begins requests that wait, each again when it is answered, until ctx ends.
func (c *http2Caller) keepOpen(ctx context.Context, requests []api.Request) error {
	of := map[uint32]api.Request{}
	for _, q := range requests {
		if err := c.begin(of, q); err != nil {
			return err
		}
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			err = c.framer.WritePing(true, f.Data)
		case *http2.GoAwayFrame:
			return fmt.Errorf("the server ends the connection: %v", f.ErrCode)
		case *http2.DataFrame:
			if n := uint32(len(f.Data())); n > 0 {
				err = c.framer.WriteWindowUpdate(0, n)
			}
			if q, ok := of[f.StreamID]; ok && f.StreamEnded() && err == nil {
				delete(of, f.StreamID)
				err = c.begin(of, q)
			}
		}
		if err != nil {
			return fmt.Errorf("cannot go on: %w", err)
		}
	}
}

func (c *http2Caller) begin(of map[uint32]api.Request, q api.Request) error {
	c.headers.Reset()
	for _, f := range [][2]string{
		{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", q.Path},
		{"authorization", "Bearer " + q.Key}, {"prefer", fmt.Sprintf("wait=%d", shortestWait+c.next/2%waitsSpread)},
	} {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return fmt.Errorf("cannot write a request: %w", err)
		}
	}
	of[c.next] = q
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.headers.Bytes(), EndStream: true, EndHeaders: true})
	c.next += 2
	if err != nil {
		return fmt.Errorf("cannot write a request: %w", err)
	}
	return nil
}
