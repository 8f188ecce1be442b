package scenario

import (
	"math/rand/v2"
	"time"
)

// sim is what a Generator and a Living share: an agency, its simulated time, and
// the entries that it writes. The steps of its stories are methods of what they
// are about: a client, a bill, a timeEntry and so on. It belongs to one goroutine.
type sim struct {
	timeline
	output
	agency    *agency
	active    []*engagement // whose parties have joined and not left
	anomalies anomalies

	workEntries int64 // lines about time entries
	inReview    int64 // time entries that wait for their approval
}

func newSim(workspace string, a *agency, rng *rand.Rand) *sim {
	return &sim{timeline: timeline{rng: rng}, output: output{workspace: workspace, eventID: "evt_h"}, agency: a}
}

// emit writes the object under construction as a line, now and then followed by
// an anomalous one.
func (s *sim) emit(typ string) {
	s.write(typ, s.obj.finish())
	if s.chance(anomaliesPerMille) {
		s.writeAnomaly()
	}
}

func (s *sim) write(typ string, data []byte) {
	var createdAt time.Time
	if s.history {
		createdAt = time.UnixMilli(s.now).UTC()
	}
	s.append(typ, data, createdAt)
}

// activate begins engagements whose parties have both joined, and ends the ones of
// clients who have left.
func (s *sim) activate() {
	s.active = s.active[:0]
	for _, e := range s.agency.engagements {
		if e.client.joined && !e.client.left && e.contractor.joined {
			s.active = append(s.active, e)
		}
	}
}

// closePeriod closes a period for one client, or (nil) for the workspace.
func (s *sim) closePeriod(p period, c *client) {
	o := s.obj.reset()
	o.text("period", p.key)
	if c != nil {
		o.text("client_id", c.id)
	}
	s.emit("period.closed")
}
