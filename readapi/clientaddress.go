package readapi

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientAddress is the address for which a request counts: the peer's, or, if that is a
// trusted proxy, the right-most address of X-Forwarded-For that is not
// (docs/contract/decisions.md, "Requests", 3). The addresses to the left of it are the
// caller's claim and prove nothing.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
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
				return address // the last one that came from a trusted peer
			}
			address = hop
			if !isTrusted(address, trusted) {
				return address
			}
		}
	}
	return address
}

// parseHop reads one address of X-Forwarded-For, with or without a port.
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
