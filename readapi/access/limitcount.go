package access

// count is what is known of one key or address in one clock minute.
type count struct {
	shared   int64 // all instances together, as the table last said; with what of ours it holds
	inflight int64 // ours, on its way to the table
	pending  int64 // ours, to be brought to the table
}

func (c *count) total() int64 { return c.shared + c.inflight + c.pending }

// take counts one more unless limit is reached.
func (c *count) take(limit int64) bool {
	if c.total() >= limit {
		return false
	}
	c.pending++
	return true
}

// depart moves what is pending on its way.
func (c *count) depart() int64 {
	n := c.pending
	c.inflight += n
	c.pending = 0
	return n
}

// arrived notes that n came to the table, or may have: what is lost there still
// counts here.
func (c *count) arrived(n int64) {
	c.inflight -= n
	c.shared += n
}

// returned notes that n certainly did not come to the table.
func (c *count) returned(n int64) {
	c.inflight -= n
	c.pending += n
}

// learn takes over what the table says. It never falls within a minute.
func (c *count) learn(total int64) { c.shared = max(c.shared, total) }
