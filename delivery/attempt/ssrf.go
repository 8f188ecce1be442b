package attempt

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// errNotPublic means that a connection was not made, because its address is not public.
var errNotPublic = errors.New("the address is not public")

// filter decides which addresses may be connected to (docs/contract/decisions.md, "Webhooks"),
// against server-side request forgery. It checks the address of each connection just before it is
// made, so a DNS answer that changes after an earlier check does not help an attacker.
type filter struct {
	guardian *ssrf.Guardian
	allow    []netip.Prefix
}

func newFilter(allow []netip.Prefix) *filter {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Unmap().Is4() {
			v4 = append(v4, p.Masked())
		} else {
			v6 = append(v6, p.Masked())
		}
	}
	return &filter{allow: append(v4, v6...), guardian: ssrf.New(
		ssrf.WithAnyPort(),
		ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(deniedPrefixes()...),
	)}
}

// deniedPrefixes returns public ranges that are refused, too.
func deniedPrefixes() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32), // Azure's platform services, on a public address
	}
}

// control is called by net.Dialer before it connects.
func (f *filter) control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || (network != "tcp4" && network != "tcp6") {
		return errNotPublic
	}
	return f.check(to.Addr())
}

// check returns errNotPublic for an address that is neither public nor allowed
// by the operator.
func (f *filter) check(ip netip.Addr) error {
	ip = ip.WithZone("")
	for _, p := range f.allow {
		if p.Contains(ip) {
			return nil
		}
	}
	if err := f.guardian.SafeAddr(ip); err != nil {
		return errNotPublic
	}
	// ISATAP puts an IPv4 address into the lower half, under any prefix.
	if v4, ok := isatap(ip); ok {
		return f.check(v4)
	}
	return nil
}

// isatap returns the IPv4 address inside an ISATAP address.
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
