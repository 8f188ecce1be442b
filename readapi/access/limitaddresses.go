package access

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
)

// addressCounts counts refused keys by address in a table of a fixed size, so
// that no flood of addresses makes the process grow. An address has its place
// among the eight of a bucket; when they are taken, the one with the fewest
// refused keys gives way. That is on the caller's side: who comes from ever new
// addresses cannot be told apart by them anyway, and who stays keeps its place.
type addressCounts struct {
	seed    maphash.Seed
	buckets []addressBucket
}

// addressSlots is how many addresses are told apart: 4 MiB.
const addressSlots = 1 << 16

const bucketSlots = 8

type addressBucket struct {
	mu    sync.Mutex
	slots [bucketSlots]addressSlot
}

type addressSlot struct {
	network [16]byte
	minute  int64 // the slot is free in every other
	count
}

func newAddressCounts() *addressCounts {
	return &addressCounts{seed: maphash.MakeSeed(), buckets: make([]addressBucket, addressSlots/bucketSlots)}
}

// networkOf is what counts as one address: an IPv4 address, or an IPv6 network
// of 64 bits, which is what one caller usually has to itself.
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

// nameOf writes a network as the table holds it.
func nameOf(network [16]byte) string { return netip.AddrFrom16(network).Unmap().String() }

// networkNamed is the reverse of nameOf.
func networkNamed(name string) ([16]byte, bool) {
	address, err := netip.ParseAddr(name)
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

// claim is find that makes room. The caller holds mu.
func (b *addressBucket) claim(minute int64, network [16]byte) *addressSlot {
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

func (a *addressCounts) take(minute int64, address netip.Addr, limit int64) (total int64, ok bool) {
	network := networkOf(address)
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.claim(minute, network)
	ok = s.take(limit)
	return s.total(), ok
}

func (a *addressCounts) look(minute int64, address netip.Addr) int64 {
	network := networkOf(address)
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(minute, network); s != nil {
		return s.total()
	}
	return 0
}

// maxShared is how many addresses one exchange tells the others of: those with
// the most refused keys.
const maxShared = 2000

// depart gathers what is to be brought to the table.
func (a *addressCounts) depart(minute int64, into []parcel) []parcel {
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
	if len(list) > maxShared {
		slices.SortFunc(list, func(x, y busy) int { return cmp.Compare(y.total, x.total) })
		list = list[:maxShared]
	}
	for _, l := range list {
		a.with(minute, l.network, false, func(c *count) {
			if c.pending > 0 {
				into = append(into, parcel{workspaceID: everyWorkspace, subject: nameOf(l.network), minute: minute, n: c.depart()})
			}
		})
	}
	return into
}

// with runs do on the count of a network in a minute. With create it gets a
// place when it has none.
func (a *addressCounts) with(minute int64, network [16]byte, create bool, do func(*count)) {
	b := a.bucket(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.find(minute, network)
	if s == nil && create {
		s = b.claim(minute, network)
	}
	if s != nil {
		do(&s.count)
	}
}
