package cosigning

// Times are how long a Gatherer waits.
type Times = times

// Times may be changed before the Gatherer runs.
func (g *Gatherer) Times() *Times { return &g.times }
