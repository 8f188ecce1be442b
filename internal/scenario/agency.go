package scenario

import "math/rand/v2"

// agency is everybody who takes part in the stories of a workspace. It is drawn from
// the Config alone, with randomness of its own, so that a Living knows the parties
// of a history that it has not played.
type agency struct {
	clients     []*client
	contractors []*contractor
	engagements []*engagement
}

type client struct {
	id, name  string
	laterName string // the name after renameAt
	plan      string
	location  location
	street    string
	contacts  []contact
	cycle     cycle
	currency  string
	rate      int64 // cents an hour, a multiple of 4: quarters are exact
	prepays   bool
	external  bool // some of its invoices are billed outside of the product

	// When the client joins, is renamed and leaves, as shares of the span; 0 for
	// never. A founder joins at the start.
	founder                   bool
	joinAt, renameAt, leaveAt float64

	contractFrom day
	joined, left bool
	credit       credit
}

type contact struct{ first, last, title, email, phone string }

type contractor struct {
	id, name         string
	laterName        string
	email, title     string
	rate             int64 // cents an hour, a multiple of 4
	founder          bool
	joinAt, renameAt float64
	joined           bool
}

// engagement is a contractor who works for a client. Each has invoices of its own,
// because the payout on an invoice goes to one contractor.
type engagement struct {
	client     *client
	contractor *contractor
	service    string
	bill       *bill // of the current period; work goes to it
}

// agencySeed selects the PCG stream of the agency; stories have streams of their own.
const agencySeed = 0x9e3779b97f4a7c15

func newAgency(cfg Config) *agency {
	rng := rand.New(rand.NewPCG(cfg.Seed, agencySeed))
	a := &agency{
		clients:     make([]*client, cfg.Clients),
		contractors: make([]*contractor, cfg.Contractors),
	}
	home := [...]string{"USD", "EUR", "GBP"}[rng.IntN(3)]
	for i := range a.contractors {
		a.contractors[i] = newContractor(rng, i, founders(cfg.Contractors))
	}
	for i := range a.clients {
		a.clients[i] = newClient(rng, i, founders(cfg.Clients), home)
	}
	a.engage(rng)
	return a
}

// founders is how many of n parties join at the start. The others join during the
// first half of the span or a little later.
func founders(n int) int { return (n*3 + 4) / 5 }

// engage gives every client a contractor and every contractor a client.
func (a *agency) engage(rng *rand.Rand) {
	pair := func(cl *client, co *contractor) {
		a.engagements = append(a.engagements, &engagement{
			client: cl, contractor: co, service: services[rng.IntN(len(services))],
		})
	}
	founding := founders(len(a.contractors))
	for i, cl := range a.clients {
		if cl.founder {
			pair(cl, a.contractors[i%founding])
		} else {
			pair(cl, a.contractors[(i+1)%len(a.contractors)])
		}
	}
	// A third of the contractors, and all who have no client yet, get another.
	for j, co := range a.contractors {
		cl := a.clients[(j*5+2)%len(a.clients)]
		if busy, same := a.has(cl, co); !same && (!busy || j%3 == 0) {
			pair(cl, co)
		}
	}
}

// has reports whether the contractor works at all, and whether for this client.
func (a *agency) has(cl *client, co *contractor) (busy, same bool) {
	for _, e := range a.engagements[:min(len(a.engagements), len(a.clients))] {
		if e.contractor == co {
			busy = true
			same = same || e.client == cl
		}
		if busy && same {
			break
		}
	}
	return busy, same
}

func newClient(rng *rand.Rand, i, founders int, home string) *client {
	r := rng.Uint64()
	c := &client{
		id:       partyID("cl_", i),
		name:     companyName(i, r),
		plan:     plans[rng.IntN(len(plans))],
		location: locations[r>>32%uint64(len(locations))],
		street:   streets[r>>40%uint64(len(streets))],
		cycle:    [...]cycle{monthly, fortnightly, monthly, weekly, monthly}[i%5],
		currency: home,
		rate:     rng.Int64N(25)*500 + 6000,
		prepays:  i%3 == 0,
		external: i%7 == 6,
		founder:  i < founders,
	}
	if i%9 == 5 {
		c.currency = "CHF"
	}
	if rng.IntN(4) == 0 {
		c.rate += 40 // such as 60.40: a quarter of an hour is still whole cents
	}
	for range rng.IntN(3) + 1 {
		c.contacts = append(c.contacts, newContact(rng))
	}
	if !c.founder {
		c.joinAt = 0.03 + 0.5*rng.Float64()
	}
	if rng.IntN(5) == 0 {
		c.renameAt = 0.6 + 0.35*rng.Float64()
		c.laterName = companyName(i, rng.Uint64())
	}
	if i > 0 && rng.IntN(9) == 0 {
		c.leaveAt = 0.65 + 0.3*rng.Float64()
	}
	return c
}

func newContact(rng *rand.Rand) contact {
	r := rng.Uint64()
	c := contact{
		first: firstNames[r%uint64(len(firstNames))],
		last:  lastNames[r>>16%uint64(len(lastNames))],
		email: "ap" + string(appendDigits(nil, int64(r>>32%1000), 3)) + "@example.com",
	}
	if r>>48&1 == 0 {
		c.title = contactTitles[r>>49%uint64(len(contactTitles))]
	}
	if r>>56&3 == 0 {
		c.phone = "+1 555 01" + string(appendDigits(nil, int64(r>>32%100), 2))
	}
	return c
}

func newContractor(rng *rand.Rand, i, founders int) *contractor {
	c := &contractor{
		id:      partyID("co_", i),
		name:    personName(i, rng.Uint64()),
		title:   titles[rng.IntN(len(titles))],
		rate:    rng.Int64N(10)*220 + 2840, // below the lowest bill rate
		founder: i < founders,
	}
	if rng.IntN(5) > 0 {
		c.email = "c" + string(appendDigits(nil, int64(i+1), 3)) + "@example.com"
	}
	if !c.founder {
		c.joinAt = 0.03 + 0.5*rng.Float64()
	}
	if rng.IntN(5) == 0 {
		c.renameAt = 0.6 + 0.35*rng.Float64()
		c.laterName = personName(i, rng.Uint64())
	}
	return c
}

// partyID numbers parties by their index in the agency, so that a Living finds the
// same ones.
func partyID(kind string, i int) string {
	return string(appendDigits([]byte(kind), int64(i+1), 6))
}
