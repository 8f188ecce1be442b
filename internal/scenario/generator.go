package scenario

import "math/rand/v2"

// Generator plays the history of an agency. It is not safe for concurrent use.
type Generator struct {
	*sim
	start, end int64 // the span in milliseconds, end not included
	entries    int64 // lines wanted; 0 for all
	given      int64
	workload   workload
}

// New prepares the history of an agency.
func New(cfg Config) *Generator {
	cfg = cfg.withDefaults()
	s := newSim(cfg.WorkspaceID, newAgency(cfg), rand.New(rand.NewPCG(cfg.Seed, storySeed)))
	s.history = true
	g := &Generator{
		sim:     s,
		start:   startMilli(cfg),
		end:     endMilli(cfg),
		entries: int64(cfg.Entries),
	}
	s.clock, s.now = g.start, g.start
	g.workload = newWorkload(g)
	g.planParties()
	s.queue.push(g.start, g.planDay)
	return g
}

// storySeed selects the PCG stream of a history; the agency has one of its own.
const storySeed = 0xd1b54a32d192ed03

// Next returns the next line; ok is false at the end of the span, or when there are as
// many lines as the Config asks for.
func (g *Generator) Next() (line Line, ok bool) {
	if g.entries > 0 && g.given == g.entries {
		return Line{}, false
	}
	for {
		if l, ok := g.take(); ok {
			g.given++
			return l, true
		}
		if at, ok := g.queue.next(); ok && at < g.end {
			g.step()
			continue
		}
		if g.given >= g.entries {
			return Line{}, false
		}
		g.fill()
	}
}

// fill adds one piece of work near the end of the span. The workload leaves few lines
// to it, but it makes the number of lines exact.
func (g *Generator) fill() {
	g.now += (g.end - g.now) / (g.entries - g.given + 1)
	g.clock = g.now
	e := g.active[g.rng.IntN(len(g.active))]
	g.billFor(e, g.today()).addWork(g.sim, e.service, g.today())
}

// planParties plans when the parties join: the founders at once, beginning with one
// contractor and one client, so that work is possible from the start.
func (g *Generator) planParties() {
	span := g.end - g.start
	at := func(share float64) (int64, bool) {
		ms := g.start + int64(share*float64(span))
		return ms, share > 0 && ms >= g.now && ms < g.end
	}
	moment := g.start
	gap := min(90*second, span/int64(4*(len(g.agency.clients)+len(g.agency.contractors))))
	join := func(founder bool, share float64, run func()) {
		if founder {
			g.queue.push(moment, run)
			return
		}
		ms, _ := at(share)
		g.queue.push(g.office(ms), run)
	}
	clients, contractors := g.agency.clients, g.agency.contractors
	for i := range max(len(clients), len(contractors)) {
		if i > 0 {
			moment += g.between(0, gap)
		}
		if i < len(contractors) {
			c := contractors[i]
			join(c.founder, c.joinAt, func() { c.join(g.sim, at) })
		}
		if i < len(clients) {
			c := clients[i]
			join(c.founder, c.joinAt, func() { c.join(g.sim, at) })
		}
	}
}

// planDay plans the work of the day that begins now, and the planning of the next.
func (g *Generator) planDay() {
	today := g.today()
	from := max(g.now, min(today.start()+opening-30*minute, g.end-1))
	to := min(today.start()+closing+30*minute, g.end)
	if from >= to {
		to = min((today + 1).start(), g.end)
	}
	for range g.workload.today(g, today) {
		g.queue.push(g.between(from, to), func() { g.workOn(today) })
	}
	g.planClosings(today)
	if next := (today + 1).start(); next < g.end {
		g.queue.push(next, g.planDay)
	}
}

// workOn adds one piece of work, now and then with a charge.
func (g *Generator) workOn(on day) {
	e := g.active[g.rng.IntN(len(g.active))]
	b := g.billFor(e, on)
	b.addWork(g.sim, e.service, on)
	if g.chance(60) {
		b.addCharge(g.sim, on)
	}
}

// planClosings plans that the periods that ended yesterday are closed some days later,
// now and then for one client first.
func (g *Generator) planClosings(today day) {
	if (today - 1).start() < g.start {
		return
	}
	for cycle := monthly; cycle < cycles; cycle++ {
		p := cycle.period(today - 1)
		if p.end != today-1 {
			continue
		}
		var of []*client
		for _, c := range g.agency.clients {
			if c.cycle == cycle && c.joined {
				of = append(of, c)
			}
		}
		if len(of) == 0 {
			continue
		}
		if c := of[g.rng.IntN(len(of))]; g.chance(200) {
			g.afterInOffice(4*fullDay, 8*fullDay, func() { g.closePeriod(p, c) })
		}
		g.afterInOffice(9*fullDay, 16*fullDay, func() { g.closePeriod(p, nil) })
	}
}
