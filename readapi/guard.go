package readapi

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
)

// Guard wraps the listener that a server of NewServer serves. What is no HTTP
// request, or one with headers beyond all measure, never reaches a handler: the
// server answers it with a line of plain text. The guard puts a problem document
// in its place, with the headers that every answer has.
func (a *API) Guard(listener net.Listener) net.Listener { return &guard{listener, a} }

type guard struct {
	net.Listener

	api *API
}

// Accept waits for the next connection.
func (g *guard) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &guardedConn{tcp, g.api}, nil
	}
	return conn, nil
}

// guardedConn is a connection whose server's own refusals are put into words.
// It keeps the other abilities of a TCP connection, which the server uses.
type guardedConn struct {
	*net.TCPConn

	api *API
}

// plainRefusal is how the server's own refusals go on after their status; no
// answer of a handler does.
const plainRefusal = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write passes everything on but refusals of the server itself, which it writes
// in one piece.
func (c *guardedConn) Write(p []byte) (int, error) {
	const proto = "HTTP/1.1 "
	if len(p) < len(proto)+3 || p[len(proto)] < '4' || string(p[:len(proto)]) != proto {
		return c.TCPConn.Write(p)
	}
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	status := string(line[len(proto) : len(proto)+3])
	// 417 comes with other headers; no handler answers with it.
	if status != "417" && !bytes.HasPrefix(p[len(line):], []byte(plainRefusal)) {
		return c.TCPConn.Write(p)
	}
	answer, err := c.refusal(status)
	if err != nil {
		return c.TCPConn.Write(p)
	}
	if _, err := c.TCPConn.Write(answer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refusal is the whole answer to what the server refused.
func (c *guardedConn) refusal(status string) ([]byte, error) {
	p := notHTTP()
	if status == strconv.Itoa(statusInvalidHeaders) {
		p = headersTooLarge()
	}
	reply := &plainReply{header: http.Header{}}
	call := &call{api: c.api, w: reply, r: &http.Request{Method: http.MethodGet, Header: http.Header{}}, began: c.api.cfg.Clock()}
	if peer, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		call.address = peer.Addr().Unmap().WithZone("")
	}
	call.requestID = call.chooseRequestID()
	call.countAddress()
	body, err := call.appendProblem(p)
	if err != nil {
		return nil, err
	}
	h := call.commonHeaders()
	h[headerCacheControl] = cacheNever
	h[headerContentType] = typeProblem
	h[headerContentLength] = []string{strconv.Itoa(len(body))}
	h["Connection"] = []string{"close"}
	h["Date"] = []string{call.began.UTC().Format(http.TimeFormat)}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", p.status, http.StatusText(p.status))
	if err := h.Write(&b); err != nil {
		return nil, fmt.Errorf("write the headers of a refusal: %w", err)
	}
	b.WriteString("\r\n")
	b.Write(body)
	call.status, call.bytes, call.refusal = p.status, len(body), p.refusal
	c.api.record(call)
	return b.Bytes(), nil
}

// plainReply collects the headers of an answer that no server writes.
type plainReply struct{ header http.Header }

func (r *plainReply) Header() http.Header         { return r.header }
func (r *plainReply) Write(p []byte) (int, error) { return len(p), nil }
func (r *plainReply) WriteHeader(int)             {}
