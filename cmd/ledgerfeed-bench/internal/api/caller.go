package api

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

// Request is a GET request with a key.
type Request struct {
	Host, Path, Key string

	Conditional bool // with If-None-Match
	ETag        string
	Gzip        bool

	// Of Server.Get alone.
	Accept, Encoding string // a form of lists, and an encoding; empty: JSON, and none
}

// Caller is a connection that sends one request again and again. It does little
// else, because it shares the processors with what is measured.
type Caller struct {
	conn   net.Conn
	reader *bufio.Reader
	text   []byte
}

// Dial opens a connection for the request.
func (q Request) Dial(ctx context.Context) (*Caller, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", q.Host)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the API: %w", err)
	}
	return &Caller{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), text: q.text()}, nil
}

func (q Request) text() []byte {
	text := "GET " + q.Path + " HTTP/1.1\r\nHost: " + q.Host + "\r\nAuthorization: Bearer " + q.Key + "\r\n"
	if q.Conditional {
		text += "If-None-Match: " + q.ETag + "\r\n"
	}
	if q.Gzip {
		text += "Accept-Encoding: gzip\r\n"
	}
	return []byte(text + "\r\n")
}

// Close closes the connection.
func (c *Caller) Close() { _ = c.conn.Close() }

var errResponse = errors.New("the response is not one of HTTP/1.1 with a length")

// Call sends the request and reads the response.
func (c *Caller) Call() (status int, err error) {
	if _, err := c.conn.Write(c.text); err != nil {
		return 0, fmt.Errorf("cannot send a request: %w", err)
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, fmt.Errorf("cannot read a response: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first:
			if len(line) < 12 {
				return 0, errResponse
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, errResponse
			}
		case len(line) == 0:
			return c.readBody(status, length)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(line[16:])); err != nil {
				return 0, errResponse
			}
		}
	}
}

// Expect is Call that fails with any other status than one.
func (c *Caller) Expect(want int) error {
	status, err := c.Call()
	if err == nil && status != want {
		path, _, _ := bytes.Cut(c.text, []byte(" HTTP/"))
		err = fmt.Errorf("%s answered %d", path, status)
	}
	return err
}

func (c *Caller) readBody(status, length int) (int, error) {
	if status == http.StatusNotModified {
		return status, nil
	}
	if length < 0 {
		return 0, errResponse
	}
	if _, err := c.reader.Discard(length); err != nil {
		return 0, fmt.Errorf("cannot read a response: %w", err)
	}
	return status, nil
}

// SetRequest changes what the caller sends; the host stays.
func (c *Caller) SetRequest(q Request) { c.text = q.text() }
