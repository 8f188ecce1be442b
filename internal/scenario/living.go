package scenario

import (
	"math/rand/v2"
	"time"
)

// Living continues an agency after its history, with small stories about the
// clients and contractors of the same Config. It is not safe for concurrent use.
//
// It does not know what the history left open, and needs not: it tops up the
// credit that it uses, and sends the invoices that it records.
type Living struct {
	*sim
	clients     []*client
	engagements []*engagement
}

// openSteps is how many steps a Living keeps waiting. More of them mix more
// stories; fewer bring a story to its end sooner.
const openSteps = 16

// livingSeed sets the PCG streams of living agencies apart from the others.
const livingSeed = 0x8cb92ba72f3d8dd7

// NewLiving prepares the stories that follow position base of the log. Start it
// again with the position that the log has reached by then, so that its ids
// never repeat: they contain base. The cfg
// is one that New takes; sizes out of their range are brought into it.
func NewLiving(cfg Config, base int64) *Living {
	cfg = cfg.withDefaults()
	cfg.Clients = min(max(cfg.Clients, 1), maxParties)
	cfg.Contractors = min(max(cfg.Contractors, 1), maxParties)
	base = max(base, 0)
	s := newSim(cfg.WorkspaceID, newCast(cfg), rand.New(rand.NewPCG(cfg.Seed, livingSeed^uint64(base))))
	s.idBase = "l" + base36(base) + "_"
	s.eventID = "evt_" + s.idBase
	l := &Living{sim: s}
	// A history that was cut short may not have got to those who join late.
	whole := cfg.Entries == 0
	for _, c := range s.cast.clients {
		l.meetClient(cfg, c, whole)
	}
	for _, c := range s.cast.contractors {
		c.joined = whole || c.founder
		if whole && c.renameAt > 0 {
			c.name = c.laterName
		}
	}
	for _, e := range s.cast.engagements {
		if e.client.joined && !e.client.left && e.contractor.joined {
			l.engagements = append(l.engagements, e)
		}
	}
	if base == 0 {
		l.introduce()
	}
	return l
}

// meetClient brings a client to where the history leaves it.
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

// introduce records everybody first, for a workspace without a history.
func (l *Living) introduce() {
	for _, c := range l.cast.contractors {
		if c.joined {
			l.queue.push(0, func() { l.contractorRecorded(c) })
		}
	}
	for _, c := range l.clients {
		l.queue.push(0, func() { l.clientRecorded(c) })
	}
}

// Next gives the next entry, as if it happened at the moment now. The stories
// run in a time of their own: whatever step is next in it comes now.
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

// newStory begins one; all begin with an entry, so that Next always ends.
func (l *Living) newStory() {
	e := l.engagements[l.rng.IntN(len(l.engagements))]
	p := e.client.rhythm.period(l.today())
	if lapsed := e.client.credit.lapsed(l.today()); lapsed != nil {
		l.expire(e.client, lapsed)
		return
	}
	loose := &bill{client: e.client, contractor: e.contractor, period: p, loose: true}
	switch r := l.rng.IntN(100); {
	case r < 12 && e.client.credit.usable(l.today()) == nil:
		l.topUp(e.client)
	case r < 55:
		l.doWork(loose, e.service, l.today())
	case r < 82:
		l.billingRound(e, p)
	case r < 90:
		l.addCharge(loose, l.today())
	case r < 94:
		l.changeClient(e.client)
	case r < 96:
		l.contractorRecorded(e.contractor)
	default:
		l.closePeriod(e.client.rhythm.period(p.start-1), e.client)
	}
}

// billingRound does a little work for an invoice, and bills it.
func (l *Living) billingRound(e *engagement, p period) {
	b := l.openBill(e, p)
	work := func() { l.doWork(b, e.service, min(l.today(), p.end)) }
	work()
	for range l.rng.IntN(3) {
		l.after(hour, 20*hour, work)
	}
	if l.chance(200) {
		l.after(hour, 20*hour, func() { l.addCharge(b, min(l.today(), p.end)) })
	}
	l.after(fullDay, 3*fullDay, func() { l.settle(b) })
}
