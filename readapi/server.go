package readapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Times that bound what a slow caller can hold.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Bounds on what one connection over HTTP/2 can hold.
const (
	maxStreams   = 128      // requests under way
	readFrame    = 16 << 10 // bytes of one frame, the least that there is
	receiveSpace = 64 << 10 // bytes of requests' bodies, which nobody reads
)

// protocols are what a server of an API speaks: HTTP/2 also without TLS, by prior
// knowledge alone, so that one connection of a proxy carries many requests that wait.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// NewServer makes the server of an API, with a bound on every time and size that a
// caller has influence on. It must be served on a listener that API.RewriteErrors
// wraps. It reads headers of up to four times answer.MaxHeaderBytes, so that the API
// itself can refuse most that are too large.
func NewServer(api *API, logger *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           api,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    4 * answer.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ConnContext:       withConnection,
		// OPTIONS * is an unknown path like any other.
		DisableGeneralOptionsHandler: true,
		Protocols:                    protocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: readFrame,
			MaxReceiveBufferPerConnection: receiveSpace, MaxReceiveBufferPerStream: receiveSpace,
			WriteByteTimeout: max(writeTimeout, stallOf(api)),
		},
	}
	server.RegisterOnShutdown(api.Drain)
	return server
}

// stallOf is how long a connection of several answers may take nothing: what a whole list may.
func stallOf(api *API) time.Duration {
	if api == nil {
		return 0
	}
	return api.cfg.WholeLists.Stall
}

// connectionKey finds a request's connection in its context.
type connectionKey struct{}

// ServeFiles prepares a server whose handler calls File, so that a file ends as a whole list does
// when nothing of it is taken. The server's WriteTimeout must be set.
func (r *Reader) ServeFiles(server *http.Server) {
	server.ConnContext = withConnection
	server.HTTP2 = &http.HTTP2Config{WriteByteTimeout: max(server.WriteTimeout, stallOf(r.api))}
}

// withConnection is an http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// prover is a connection that may be idle for longer once a valid key came over it.
type prover interface{ Prove() }

// proveConnection says that the key of the request is valid.
func (q *request) proveConnection() {
	if c, ok := connectionOf[prover](q); ok {
		c.Prove()
	}
}

// endWithReset makes the end of a request's connection a reset, or an ordinary end
// again. In HTTP/1.0 the end of the connection is that of the answer, so an answer that is
// broken off would be taken for a whole one.
func endWithReset(q *request, reset bool) {
	const ordinary = -1
	if q.http.ProtoAtLeast(1, 1) {
		return
	}
	if c, ok := connectionOf[interface{ SetLinger(sec int) error }](q); ok {
		linger := ordinary
		if reset {
			linger = 0
		}
		_ = c.SetLinger(linger) // of a connection that has gone, perhaps
	}
}

// connectionOf finds the request's connection of a kind, which may lie below others, such
// as one of TLS.
func connectionOf[T any](ctx context.Context) (found T, ok bool) {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	for conn != nil {
		if found, ok = conn.(T); ok {
			return found, true
		}
		above, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = above.NetConn()
	}
	return found, false
}

// placer is a connection that bounds the requests under way on it whose caller is not
// known yet; *connlimit.Conn is one.
type placer interface {
	TakePlace() (release func(), ok bool)
}

// takePlace bounds what callers can have under way before their keys are checked. Over
// HTTP/1 the bound on connections does that; over HTTP/2 each request counts as one.
func takePlace(r *http.Request) (release func(), ok bool) {
	if r.ProtoMajor < 2 {
		return func() {}, true
	}
	if c, found := connectionOf[placer](r.Context()); found {
		return c.TakePlace()
	}
	return func() {}, true
}

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

// Probe does what requests need: it reads a page of a list and of the events, of a
// workspace that does not exist. The error says what is in the way.
func (a *API) Probe(ctx context.Context) error {
	for _, r := range route.Table() {
		if r.Kind != route.Rows {
			continue
		}
		statement := listStatement(r.Resource, nil, 0, visibility{pay: true, margin: true})
		rows, err := a.cfg.Pool.Query(ctx, statement, "", int64(0), "", (*time.Time)(nil), 1, int64(0), make([]byte, len(eventlog.Mark{}.Chain)))
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		if err != nil {
			return fmt.Errorf("read a page of %s: %w", r.Resource.Table, err)
		}
		break // all lists are alike
	}
	_, err := a.cfg.Feed.Page(ctx, eventlog.FeedQuery{Limit: 1, Pay: true})
	if _, unknown := errors.AsType[*domain.UnknownWorkspaceError](err); !unknown {
		return fmt.Errorf("read a page of events: %w", err)
	}
	return nil
}
