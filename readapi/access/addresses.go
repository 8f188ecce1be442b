package access

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
)

// addressCounts counts refused keys by address in a table of a fixed size, so that
// a flood of addresses does not make the process grow. An address has one of the
// eight slots of a bucket; when all are taken, it replaces the address with the
// fewest refused keys. This errs in the callers' favour: callers that keep changing
// their address cannot be told apart anyway, and an address that goes on sending
// refused keys keeps its slot.
type addressCounts struct {
	seed    maphash.Seed
	buckets []addressBucket
}

const (
	// addressSlots is how many addresses are told apart; they take 4 MiB.
	addressSlots = 1 << 16
	bucketSlots  = 8
)

type addressBucket struct {
	mu    sync.Mutex
	slots [bucketSlots]addressSlot
}

type addressSlot struct {
	network [16]byte
	minute  int64 // the slot is free in all other minutes
	refused bool  // a take was not ok
	count
}

func newAddressCounts() *addressCounts {
	return &addressCounts{seed: maphash.MakeSeed(), buckets: make([]addressBucket, addressSlots/bucketSlots)}
}

// networkOf is what counts as one address: an IPv4 address, or an IPv6 network of
// 64 bits, because that is what one caller usually has to itself.
func networkOf(address netip.Addr) [16]byte {
	address = address.Unmap()
	if !address.Is6() {
		if !address.IsValid() {
			return [16]byte{}
		}
		return address.As16()
	}
	network := address.As16()
	clear(network[8:])
	return network
}

// formatNetwork writes a network as the table rate_count holds it.
func formatNetwork(network [16]byte) string { return netip.AddrFrom16(network).Unmap().String() }

// parseNetwork is the reverse of formatNetwork.
func parseNetwork(text string) ([16]byte, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return [16]byte{}, false
	}
	return address.As16(), true
}

func (a *addressCounts) bucket(network [16]byte) *addressBucket {
	return &a.buckets[maphash.Bytes(a.seed, network[:])%uint64(len(a.buckets))]
}

// find returns the slot of a network in a minute, or nil. The caller holds mu.
func (b *addressBucket) find(minute int64, network [16]byte) *addressSlot {
	for i := range b.slots {
		if s := &b.slots[i]; s.minute == minute && s.network == network {
			return s
		}
	}
	return nil
}

// findOrReplace returns the slot of a network in a minute; if it has none it gets
// a free one, or that of the network with the fewest refused keys. The caller
// holds mu.
func (b *addressBucket) findOrReplace(minute int64, network [16]byte) *addressSlot {
	if s := b.find(minute, network); s != nil {
		return s
	}
	victim := &b.slots[0]
	for i := range b.slots {
		s := &b.slots[i]
		if s.minute != minute {
			victim = s
			break
		}
		if s.total() < victim.total() {
			victim = s
		}
	}
	*victim = addressSlot{network: network, minute: minute}
	return victim
}

// take counts one refused key unless limit is reached; first: that is so for the first
// time.
func (a *addressCounts) take(minute int64, address netip.Addr, limit int64) (total int64, ok, first bool) {
	network := networkOf(address)
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.findOrReplace(minute, network)
	ok = s.take(limit)
	first = !ok && !s.refused
	s.refused = s.refused || !ok
	return s.total(), ok, first
}

func (a *addressCounts) total(minute int64, address netip.Addr) int64 {
	network := networkOf(address)
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(minute, network); s != nil {
		return s.total()
	}
	return 0
}

// maxSharedAddresses is how many addresses one exchange adds to the table: those
// with the most refused keys.
const maxSharedAddresses = 2000

// appendPending takes what is pending of the addresses with the most refused keys.
func (a *addressCounts) appendPending(minute int64, deltas []delta) []delta {
	type busy struct {
		network [16]byte
		total   int64
	}
	var list []busy
	for i := range a.buckets {
		b := &a.buckets[i]
		b.mu.Lock()
		for j := range b.slots {
			if s := &b.slots[j]; s.minute == minute && s.pending > 0 {
				list = append(list, busy{s.network, s.total()})
			}
		}
		b.mu.Unlock()
	}
	if len(list) > maxSharedAddresses {
		slices.SortFunc(list, func(x, y busy) int { return cmp.Compare(y.total, x.total) })
		list = list[:maxSharedAddresses]
	}
	for _, l := range list {
		a.update(minute, l.network, false, func(c *count) {
			if c.pending > 0 {
				deltas = append(deltas, delta{workspaceID: noWorkspace, subject: formatNetwork(l.network), minute: minute, n: c.takePending()})
			}
		})
	}
	return deltas
}

// update changes the count of a network in a minute. A network without a slot gets
// one if create is true.
func (a *addressCounts) update(minute int64, network [16]byte, create bool, change func(*count)) {
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.find(minute, network)
	if s == nil && create {
		s = b.findOrReplace(minute, network)
	}
	if s != nil {
		change(&s.count)
	}
}
