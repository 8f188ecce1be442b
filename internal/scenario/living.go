package scenario

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// Living continues an agency after its history, with small stories about the
// clients and contractors of the same Config. It is not safe for concurrent use.
//
// It does not know what the history left open, and does not need to: it tops up the
// credit that it uses, and sends the invoices that it records.
type Living struct {
	*sim
	clients     []*client
	engagements []*engagement
}

// openSteps is how many steps a Living keeps planned. With more, more stories run
// side by side; with fewer, each ends sooner.
const openSteps = 16

// livingSeed selects the PCG streams of Livings; histories have streams of their own.
const livingSeed = 0x8cb92ba72f3d8dd7

// NewLiving prepares the stories that follow position base of the workspace's log.
// Ids contain base, so a new Living needs the position that the log has reached by
// then, or ids would repeat. cfg is the one that New got.
func NewLiving(cfg Config, base int64) *Living {
	cfg = cfg.withDefaults()
	s := newSim(cfg.WorkspaceID, newAgency(cfg), rand.New(rand.NewPCG(cfg.Seed, livingSeed^uint64(base))))
	s.idBase = "l" + strconv.FormatInt(base, 36) + "_"
	s.eventID = "evt_" + s.idBase
	l := &Living{sim: s}
	// Only the founders are sure to have joined in a history that Entries cut short.
	whole := cfg.Entries == 0
	for _, c := range s.agency.clients {
		l.meetClient(cfg, c, whole)
	}
	for _, c := range s.agency.contractors {
		c.joined = whole || c.founder
		if whole && c.renameAt > 0 {
			c.name = c.laterName
		}
	}
	for _, e := range s.agency.engagements {
		if e.client.joined && !e.client.left && e.contractor.joined {
			l.engagements = append(l.engagements, e)
		}
	}
	if base == 0 {
		l.introduce()
	}
	return l
}

// meetClient brings a client to the state in which the history leaves it.
func (l *Living) meetClient(cfg Config, c *client, whole bool) {
	c.joined = whole || c.founder
	c.left = whole && c.leaveAt > 0
	c.contractFrom = dayOf(cfg.Start.UnixMilli())
	if whole && c.renameAt > 0 {
		c.name = c.laterName
	}
	if c.joined && !c.left {
		l.clients = append(l.clients, c)
	}
}

// introduce records everybody, for a workspace without a history.
func (l *Living) introduce() {
	for _, c := range l.agency.contractors {
		if c.joined {
			l.queue.push(0, func() { c.record(l.sim) })
		}
	}
	for _, c := range l.clients {
		l.queue.push(0, func() { c.record(l.sim) })
	}
}

// Next returns the next entry, as if it happened at the moment now, which must not go
// back. The stories have a time of their own, which only orders their steps.
func (l *Living) Next(now time.Time) Line {
	l.now = now.UnixMilli()
	for {
		if line, ok := l.take(); ok {
			return line
		}
		for l.queue.len() < openSteps {
			l.after(0, 4*hour, l.newStory)
		}
		l.step()
	}
}

// newStory begins a story. Each begins with an entry, so that Next always ends.
func (l *Living) newStory() {
	e := l.engagements[l.rng.IntN(len(l.engagements))]
	p := e.client.cycle.period(l.today())
	if lapsed := e.client.credit.lapsed(l.today()); lapsed != nil {
		e.client.expire(l.sim, lapsed)
		return
	}
	loose := &bill{invoice: &invoice{client: e.client, contractor: e.contractor, period: p}, loose: true}
	switch r := l.rng.IntN(100); {
	case r < 12 && e.client.credit.usable(l.today()) == nil:
		e.client.topUp(l.sim)
	case r < 55:
		loose.addWork(l.sim, e.service, l.today())
	case r < 82:
		l.billingRound(e, p)
	case r < 90:
		loose.addCharge(l.sim, l.today())
	case r < 94:
		e.client.change(l.sim)
	case r < 96:
		e.contractor.record(l.sim)
	default:
		l.closePeriod(e.client.cycle.period(p.start-1), e.client)
	}
}

// billingRound adds a little work to a new bill, and closes it.
func (l *Living) billingRound(e *engagement, p period) {
	b := l.openBill(e, p)
	work := func() { b.addWork(l.sim, e.service, min(l.today(), p.end)) }
	work()
	for range l.rng.IntN(3) {
		l.after(hour, 20*hour, work)
	}
	if l.chance(200) {
		l.after(hour, 20*hour, func() { b.addCharge(l.sim, min(l.today(), p.end)) })
	}
	l.after(fullDay, 3*fullDay, func() { b.close(l.sim) })
}
