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

// Timeouts that limit what a slow caller can hold.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Limits on what one HTTP/2 connection can hold.
const (
	maxStreams   = 128      // requests in flight
	readFrame    = 16 << 10 // bytes of the largest frame; HTTP/2 allows no lower limit
	receiveSpace = 64 << 10 // bytes of requests' bodies, which nobody reads
)

// protocols returns the protocols of an API's server. They include HTTP/2 without TLS, by prior
// knowledge only, so that one connection of a proxy carries many waiting requests.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// NewServer makes the server of an API, with a limit on every time and size that a caller can
// influence. It must serve a listener that API.RewriteErrors has wrapped. It reads headers of up to
// four times answer.MaxHeaderBytes, so that the API itself can refuse most headers that are too
// large.
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

// stallOf returns how long a connection that carries several answers may take nothing: as long as a
// whole list may.
func stallOf(api *API) time.Duration {
	if api == nil {
		return 0
	}
	return api.cfg.WholeLists.Stall
}

// connectionKey is the context key of a request's connection.
type connectionKey struct{}

// ServeFiles prepares a server whose handlers call Rows. It breaks off a list, as the API does, if the
// reader takes nothing. The server's WriteTimeout must be set.
func (r *Reader) ServeFiles(server *http.Server) {
	server.ConnContext = withConnection
	server.HTTP2 = &http.HTTP2Config{WriteByteTimeout: max(server.WriteTimeout, stallOf(r.api))}
}

// withConnection is an http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// prover is a connection that may be idle for longer once it has carried a valid key.
type prover interface{ Prove() }

// proveConnection tells the connection that the request's key is valid.
func (q *request) proveConnection() {
	if c, ok := connectionOf[prover](q); ok {
		c.Prove()
	}
}

// endWithReset makes an HTTP/1.0 connection end with a reset, or normally again. In HTTP/1.0 the
// end of the connection is the end of the answer, so without a reset an answer that was broken off
// would look complete.
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
		_ = c.SetLinger(linger) // fails only if the connection has gone
	}
}

// connectionOf finds the request's connection of type T, which others may wrap, such as a TLS
// connection.
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

// placer is a connection that limits its requests in flight whose caller is not known yet;
// *listening.Conn is one.
type placer interface {
	TakePlace() (release func(), ok bool)
}

// takePlace limits the requests that callers can have in flight before their keys are checked. Over
// HTTP/1 the limit on connections does that; over HTTP/2 each request counts as a connection.
func takePlace(r *http.Request) (release func(), ok bool) {
	if r.ProtoMajor < 2 {
		return func() {}, true
	}
	if c, found := connectionOf[placer](r.Context()); found {
		return c.TakePlace()
	}
	return func() {}, true
}

// RewriteErrors wraps the listener of a server from NewServer. Input that is not an HTTP request,
// or has headers too large to read, never reaches a handler: the server answers it with a line of
// plain text. The listener's connections send a problem document instead, with the headers that
// every answer has.
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

// tcpConn is a connection that the server can close for writing.
type tcpConn interface {
	net.Conn
	CloseWrite() error
}

// errorConn is a connection that rewrites the server's own errors.
type errorConn struct {
	tcpConn

	api   *API
	begun bool // something was written
	http2 bool // HTTP/2 has no such errors, and its bytes could look like them
}

// NetConn returns the connection below.
func (c *errorConn) NetConn() net.Conn { return c.tcpConn }

// plainError follows the status line in the server's own errors, and in no answer of a handler.
const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write rewrites errors of the server itself, which writes each in one piece, and
// passes everything else on.
func (c *errorConn) Write(p []byte) (int, error) {
	const proto = "HTTP/1.1 "
	if !c.begun && len(p) > 0 { // HTTP/2 begins with a SETTINGS frame
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

// rewrite returns the whole answer that replaces the server's error with a status.
func (c *errorConn) rewrite(status string) ([]byte, error) {
	p := answer.NotHTTP()
	if status == strconv.Itoa(http.StatusRequestHeaderFieldsTooLarge) {
		p = answer.HeadersTooLarge()
	}
	q, text, err := c.api.withoutRequest(p, c.RemoteAddr().String())
	c.api.record(q)
	return text, err
}

// RefuseConnection returns the whole answer to a connection that the service has no place for. Nil:
// the answer could not be made.
func (a *API) RefuseConnection(peer string) []byte {
	_, text, err := a.withoutRequest(answer.Crowded(), peer)
	if err != nil {
		return nil
	}
	return text
}

// refuseStream answers a request over HTTP/2 that the service has no place for.
func (a *API) refuseStream(w http.ResponseWriter, r *http.Request) {
	q := a.newRequest(r.Context(), w, r)
	q.refuse(answer.Crowded())
	a.record(q)
}

// Unavailable answers a request that cannot be answered now, for cause, with a 503.
func (a *API) Unavailable(w http.ResponseWriter, r *http.Request, cause error) {
	q := a.newRequest(r.Context(), w, r)
	q.refuse(answer.Unavailable(cause))
	a.record(q)
}

// withoutRequest makes a whole answer when only the peer's address is known of the request.
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

// memoryWriter keeps an answer in memory.
type memoryWriter struct {
	header http.Header
	status int
	body   []byte
}

func (w *memoryWriter) Header() http.Header    { return w.header }
func (w *memoryWriter) WriteHeader(status int) { w.status = status }

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}

// Probe does what requests need: it reads a page of a list and a page of events, of a workspace
// that does not exist. The error says what failed.
func (a *API) Probe(ctx context.Context) error {
	for _, r := range route.Table() {
		if r.Kind != route.Rows {
			continue
		}
		statement := pageStatement(r.Resource, nil, statementKey{visible: visibility{pay: true, margin: true}})
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
