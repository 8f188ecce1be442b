package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// request is what a caller sends.
type request struct {
	host, path, key string

	tagged bool // with If-None-Match
	tag    string
	gzip   bool
}

// caller is a connection that sends one request again and again. It does as
// little as it can: it shares the processors with what is measured.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
	text   []byte
}

func (q request) dial(ctx context.Context) (*caller, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", q.host)
	if err != nil {
		return nil, fmt.Errorf("reach the API: %w", err)
	}
	return &caller{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), text: q.text()}, nil
}

func (q request) text() []byte {
	text := "GET " + q.path + " HTTP/1.1\r\nHost: " + q.host + "\r\nAuthorization: Bearer " + q.key + "\r\n"
	if q.tagged {
		text += "If-None-Match: " + q.tag + "\r\n"
	}
	if q.gzip {
		text += "Accept-Encoding: gzip\r\n"
	}
	return []byte(text + "\r\n")
}

func (c *caller) close() { _ = c.conn.Close() }

var errAnswer = errors.New("the answer is not one of HTTP/1.1 with a length")

// ask sends the request and reads the answer.
func (c *caller) ask() (status int, err error) {
	if _, err := c.conn.Write(c.text); err != nil {
		return 0, fmt.Errorf("send a request: %w", err)
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, fmt.Errorf("read an answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first:
			if len(line) < 12 {
				return 0, errAnswer
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, errAnswer
			}
		case len(line) == 0:
			return c.readBody(status, length)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(line[16:])); err != nil {
				return 0, errAnswer
			}
		}
	}
}

// expect is ask where one status alone is right.
func (c *caller) expect(want int) error {
	status, err := c.ask()
	if err == nil && status != want {
		path, _, _ := bytes.Cut(c.text, []byte(" HTTP/"))
		err = fmt.Errorf("%s answered %d", path, status)
	}
	return err
}

func (c *caller) readBody(status, length int) (int, error) {
	if status == http.StatusNotModified {
		return status, nil
	}
	if length < 0 {
		return 0, errAnswer
	}
	if _, err := c.reader.Discard(length); err != nil {
		return 0, fmt.Errorf("read an answer: %w", err)
	}
	return status, nil
}

// dialAll opens the usual connections.
func dialAll(ctx context.Context, target request) (callers []*caller, hangUp func(), err error) {
	hangUp = func() {
		for _, c := range callers {
			c.close()
		}
	}
	for range readConnections {
		c, err := target.dial(ctx)
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		callers = append(callers, c)
	}
	return callers, hangUp, nil
}

// hammerHTTP sends a request again and again over connections that stay open.
func (r *reading) hammerHTTP(ctx context.Context, target request) (rate float64, err error) {
	callers, hangUp, err := dialAll(ctx, target)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	want := http.StatusOK
	if target.tagged {
		want = http.StatusNotModified
	}
	n, took, _, err := hammer(ctx, readConnections, r.duration(readTime), func(_ context.Context, i, _ int) error {
		return callers[i].expect(want)
	})
	return perSecond(n, took), err
}
