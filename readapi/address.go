package readapi

import (
	"net/http"
	"net/netip"
	"strings"
)

// addressOf is the address that a request counts for: the peer's, or, for a
// trusted proxy, the right-most address of X-Forwarded-For that is none
// (docs/contract/decisions.md, "Requests", 3). What stands left of it was written by the
// caller and proves nothing.
func addressOf(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap().WithZone("")
	if !isTrusted(address, trusted) {
		return address
	}
	forwarded := r.Header.Values("X-Forwarded-For")
	for i := len(forwarded) - 1; i >= 0; i-- {
		rest := forwarded[i]
		for rest != "" {
			last := strings.LastIndexByte(rest, ',')
			hop, ok := parseHop(rest[last+1:])
			rest = rest[:max(last, 0)]
			if !ok {
				return address // the last one that a trusted peer vouched for
			}
			address = hop
			if !isTrusted(address, trusted) {
				return address
			}
		}
	}
	return address
}

// parseHop reads an element of X-Forwarded-For, with a port or without.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return address.Unmap().WithZone(""), true
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(address) {
			return true
		}
	}
	return false
}
