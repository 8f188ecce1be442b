package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// askTimeout bounds the wait for an answer, which takes as long as the probes of /readyz
// at most.
const askTimeout = 5 * time.Second

// AdminURL is where the process of this machine that listens at the address for operators
// can be asked: where it listens at all addresses, at that of the machine itself.
func AdminURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	ip, ipErr := netip.ParseAddr(host)
	if err == nil && (host == "" || ipErr == nil && ip.IsUnspecified()) {
		listen = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + listen
}

// Ask asks the process that listens at the address for operators whether it is ready.
func Ask(ctx context.Context, listen string) (answer Readiness, err error) {
	url := AdminURL(listen) + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("cannot ask %s: %w", url, err)
	}
	client := http.Client{Timeout: askTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return answer, fmt.Errorf("no process answers at LEDGERFEED_ADMIN_LISTEN: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("what answers %s is no serving process: %w", url, err)
	}
	return answer, nil
}

// String says why the process is not ready, by role.
func (r Readiness) String() string {
	var list []string
	for _, reason := range r.Reasons {
		text := reason.Reason
		if reason.Role != "" {
			text = reason.Role + ": " + text
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}
