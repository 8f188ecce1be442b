package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// forwardTimeout is the timeout of an attempt: a later answer counts as none.
const forwardTimeout = 10 * time.Second

// newForwarder returns the client that forwards messages. Like the service, it follows no
// redirects.
func newForwarder() *http.Client {
	return &http.Client{
		Timeout:       forwardTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true}, // a program that is being developed is restarted often
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errNoAnswer = errors.New("nobody answered")

// sendOn forwards a message unchanged, and records and returns the status of the answer and, in
// header, its Retry-After. Without an answer it returns 502, so that the service tries again.
func (s *Server) sendOn(r *http.Request, a *Arrival, header http.Header) int {
	status, after, err := s.forwardTo(r.Context(), r.Header, a.Body)
	if err != nil {
		problem := "not sent on to " + s.cfg.Forward.Host + ": " + err.Error()
		a.Problem, a.unanswered = &problem, true
		return http.StatusBadGateway
	}
	a.Forwarded = &status
	if after != nil {
		header["Retry-After"] = after
	}
	return status
}

func (s *Server) forwardTo(ctx context.Context, header http.Header, body []byte) (status int, retryAfter []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Forward.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("write the request: %w", err)
	}
	for name, values := range header {
		switch name {
		case "Connection", "Content-Length", "Accept-Encoding": // they belong to the incoming connection
		default:
			req.Header[name] = values
		}
	}
	resp, err := s.forward.Do(req)
	if err != nil {
		return 0, nil, errNoAnswer
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header["Retry-After"], nil
}
