package delivery

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// errNotPublic means that a connection was refused because its address is not
// public.
var errNotPublic = errors.New("the address is not public")

// guard decides which addresses may be connected to (docs/contract/decisions.md,
// "Webhooks"). It looks at the address of the very connection that is about to
// be made, so a name whose answer changes gains nothing.
type guard struct {
	guardian *ssrf.Guardian
	allow    []netip.Prefix
}

func newGuard(allow []netip.Prefix) *guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Unmap().Is4() {
			v4 = append(v4, p.Masked())
		} else {
			v6 = append(v6, p.Masked())
		}
	}
	return &guard{allow: append(v4, v6...), guardian: ssrf.New(
		ssrf.WithAnyPort(),
		ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(
			netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32), // a cloud's own services, on a public address
		),
	)}
}

// control is net.Dialer's Control.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || (network != "tcp4" && network != "tcp6") {
		return errNotPublic
	}
	return g.check(to.Addr())
}

// check refuses an address that is neither public nor opened by the operator.
func (g *guard) check(ip netip.Addr) error {
	ip = ip.WithZone("")
	for _, p := range g.allow {
		if p.Contains(ip) {
			return nil
		}
	}
	if err := g.guardian.SafeAddr(ip); err != nil {
		return errNotPublic
	}
	// ISATAP keeps an IPv4 address in the lower half, below any prefix.
	if v4, ok := isatap(ip); ok {
		return g.check(v4)
	}
	return nil
}

func isatap(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	if mark := binary.BigEndian.Uint32(b[8:12]); mark&^0x02000000 != 0x00005efe {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[12:16])), true
}
