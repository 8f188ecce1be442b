package readapi

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// RewriteErrors wraps the listener that a server of NewServer serves. What is no HTTP
// request, or has headers too large to read, never reaches a handler: the server
// answers it with a line of plain text. In its place the listener's connections send
// a problem document, with the headers that every answer has.
func (a *API) RewriteErrors(listener net.Listener) net.Listener { return &errorListener{listener, a} }

type errorListener struct {
	net.Listener

	api *API
}

// Accept waits for the next connection.
func (l *errorListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, h2 := conn.(*tls.Conn); h2 {
		return conn, nil // HTTP/2, whose errors have no text
	}
	if tcp, ok := conn.(tcpConn); ok {
		return &errorConn{tcpConn: tcp, api: l.api}, nil
	}
	return conn, nil
}

// tcpConn is what the server uses of a connection that can be closed for writing.
type tcpConn interface {
	net.Conn
	CloseWrite() error
}

// errorConn is a connection on which the server's own errors are rewritten.
type errorConn struct {
	tcpConn

	api   *API
	begun bool // something was written
	http2 bool // which has no such errors, and whose bytes could look like them
}

// NetConn is the connection below.
func (c *errorConn) NetConn() net.Conn { return c.tcpConn }

// plainError is what follows the status line in the server's own errors, and in no
// answer of a handler.
const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write rewrites errors of the server itself, which writes each in one piece, and
// passes everything else on.
func (c *errorConn) Write(p []byte) (int, error) {
	const proto = "HTTP/1.1 "
	if !c.begun && len(p) > 0 { // HTTP/2 begins with a frame of settings
		c.begun, c.http2 = true, !bytes.HasPrefix(p, []byte("HTTP/1."))
	}
	if c.http2 {
		return c.tcpConn.Write(p)
	}
	if len(p) < len(proto)+3 || p[len(proto)] < '4' || string(p[:len(proto)]) != proto {
		return c.tcpConn.Write(p)
	}
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	status := string(line[len(proto) : len(proto)+3])
	// 417 comes with other headers; no handler answers with it.
	if status != "417" && !bytes.HasPrefix(p[len(line):], []byte(plainError)) {
		return c.tcpConn.Write(p)
	}
	rewritten, err := c.rewrite(status)
	if err != nil {
		return c.tcpConn.Write(p)
	}
	if _, err := c.tcpConn.Write(rewritten); err != nil {
		return 0, err
	}
	return len(p), nil
}

// rewrite is the whole answer in place of the server's error of a status.
func (c *errorConn) rewrite(status string) ([]byte, error) {
	p := answer.NotHTTP()
	if status == strconv.Itoa(http.StatusRequestHeaderFieldsTooLarge) {
		p = answer.HeadersTooLarge()
	}
	q, text, err := c.api.withoutRequest(p, c.RemoteAddr().String())
	c.api.record(q)
	return text, err
}

// RefuseConnection is the whole answer to a connection for which the service has no
// place.
func (a *API) RefuseConnection(peer string) []byte {
	_, text, err := a.withoutRequest(answer.Crowded(), peer)
	if err != nil {
		return nil
	}
	return text
}

// refuseStream answers a request over HTTP/2 for which the service has no place.
func (a *API) refuseStream(w http.ResponseWriter, r *http.Request) {
	q := a.newRequest(r.Context(), w, r)
	q.refuse(answer.Crowded())
	a.record(q)
}

// withoutRequest is a whole answer where nothing is known of the request but the peer of
// its connection.
func (a *API) withoutRequest(p *answer.Error, peer string) (q *request, text []byte, err error) {
	w := &memoryWriter{header: http.Header{}}
	r := &http.Request{Method: http.MethodGet, Header: http.Header{}, RemoteAddr: peer}
	q = a.newRequest(r.Context(), w, r)
	q.refuse(p)
	delete(w.header, answer.HeaderVary) // no encoding was negotiated
	w.header["Connection"] = []string{"close"}
	w.header["Date"] = []string{q.began.UTC().Format(http.TimeFormat)}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", p.Status, http.StatusText(p.Status))
	if err := w.header.Write(&b); err != nil {
		return q, nil, fmt.Errorf("write the headers of a refusal: %w", err)
	}
	b.WriteString("\r\n")
	b.Write(w.body)
	return q, b.Bytes(), nil
}

// memoryWriter keeps an answer that no server writes.
type memoryWriter struct {
	header http.Header
	body   []byte
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(int) {}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}
