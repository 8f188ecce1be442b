package badnetwork

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// echo is a server that sends every line back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func proxied(t *testing.T) *Proxy {
	t.Helper()
	p, err := Listen(t.Context(), echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// client is a connection to a proxy, with what it has sent and read.
type client struct {
	t *testing.T
	net.Conn

	in *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t: t, Conn: c, in: bufio.NewReader(c)}
}

// say sends a line and returns what comes back, or the error.
func (c *client) say(line string, patience time.Duration) (string, error) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	got, err := c.in.ReadString('\n')
	return strings.TrimSuffix(got, "\n"), err
}

func (c *client) echoes(line string) {
	c.t.Helper()
	if got, err := c.say(line, time.Minute); err != nil || got != line {
		c.t.Errorf("%q came back as %q, %v", line, got, err)
	}
}

func TestPassesData(t *testing.T) {
	t.Parallel()
	c := dial(t, proxied(t))
	c.echoes("one")
	c.echoes(strings.Repeat("two", 100_000))
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	c := dial(t, p)
	c.echoes("one")
	p.Cut()
	if got, err := c.say("two", time.Minute); err == nil {
		t.Errorf("a connection that was cut answers %q", got)
	}
	dial(t, p).echoes("three")
}

func TestCutInTheMiddle(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	c := dial(t, p)
	c.echoes("one")
	p.CutAfter(3)
	if got, err := c.say("abcdef", time.Minute); err == nil || len(got) > 3 {
		t.Errorf("%q, %v: want at most 3 bytes and then a reset", got, err)
	}
}

// A silent connection takes what is sent and answers nothing; it is not closed, and
// a new one works.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	c := dial(t, p)
	c.echoes("one")
	p.Silence()
	if got, err := c.say("two", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent connection: %q, %v", got, err)
	}
	dial(t, p).echoes("three")
	p.Restore()
	if _, err := c.say("four", time.Minute); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.EOF) {
		t.Errorf("after Restore the silent connection: %v, want a reset", err)
	}
}

func TestPartitionAndRestore(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	p.Partition()
	if got, err := dial(t, p).say("one", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a new connection in a partition: %q, %v", got, err)
	}
	p.Restore()
	dial(t, p).echoes("two")
}

func TestPartitionAt(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	c := dial(t, p)
	c.echoes("one")
	if n := p.Answers(); n != 1 {
		t.Errorf("%d answers, want 1", n)
	}
	p.PartitionAt(3)
	c.echoes("two")
	for _, c := range []*client{c, dial(t, p)} {
		if got, err := c.say("three", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the third answer: %q, %v", got, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	old := dial(t, p)
	old.echoes("one")
	p.Refuse(true)
	mustFail(t, p)
	old.echoes("three")
	p.Refuse(false)
	dial(t, p).echoes("four")
}

func TestDelay(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	slept := make(chan time.Duration, 10)
	p.mu.Lock()
	p.sleep = func(d time.Duration) { slept <- d }
	p.mu.Unlock()
	c := dial(t, p)
	c.echoes("at once")
	p.Delay(time.Hour)
	c.echoes("later")
	p.Delay(0)
	c.echoes("at once again")
	close(slept)
	var got []time.Duration
	for d := range slept {
		got = append(got, d)
	}
	if want := []time.Duration{time.Hour, time.Hour}; !slices.Equal(got, want) {
		t.Errorf("the ways there and back take %v, want %v", got, want)
	}
}

func TestPoint(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	p.Point("127.0.0.1:1") // where nobody listens
	mustFail(t, p)
	p.Point(echo(t))
	dial(t, p).echoes("two")
}

// mustFail checks that a new connection is reset, at once or when it is used.
func mustFail(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Address())
	if err != nil {
		return
	}
	defer c.Close()
	if got, err := (&client{t: t, Conn: c, in: bufio.NewReader(c)}).say("one", time.Minute); err == nil {
		t.Errorf("a connection that must fail answers %q", got)
	}
}
