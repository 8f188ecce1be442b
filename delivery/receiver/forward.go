package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// forwardTimeout is that of an attempt: a later answer counts as none.
const forwardTimeout = 10 * time.Second

// newForwarder makes the client that sends messages on. A redirect is an answer, as it is
// for the service.
func newForwarder() *http.Client {
	return &http.Client{
		Timeout:       forwardTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true}, // a program that is being developed is restarted often
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errNoAnswer = errors.New("nobody answered")

// sendOn sends a message on as it came, notes the answer, and returns its status; 502 when
// there is none, so that the service tries again.
func (s *Server) sendOn(r *http.Request, a *Arrival) int {
	status, err := s.forwardTo(r.Context(), r.Header, a.Body)
	if err != nil {
		problem := "not sent on to " + s.cfg.Forward.Host + ": " + err.Error()
		a.Problem, a.unanswered = &problem, true
		return http.StatusBadGateway
	}
	a.Forwarded = &status
	return status
}

func (s *Server) forwardTo(ctx context.Context, header http.Header, body []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Forward.String(), bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("write the request: %w", err)
	}
	for name, values := range header {
		switch name {
		case "Connection", "Content-Length", "Accept-Encoding": // of the connection on which it came
		default:
			req.Header[name] = values
		}
	}
	resp, err := s.forward.Do(req)
	if err != nil {
		return 0, errNoAnswer
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}
