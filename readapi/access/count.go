package access

// count is what is known of one key or address in one clock minute. A request
// counted here is first pending, then in flight while an exchange adds it to the
// table, and then part of shared.
type count struct {
	shared   int64 // of all instances, as last read from the table
	inFlight int64 // ours, being added to the table
	pending  int64 // ours, to be added by the next exchange
}

func (c *count) total() int64 { return c.shared + c.inFlight + c.pending }

// take counts one more unless limit is reached.
func (c *count) take(limit int64) bool {
	if c.total() >= limit {
		return false
	}
	c.pending++
	return true
}

// takePending puts what is pending in flight and returns how much that is.
func (c *count) takePending() int64 {
	n := c.pending
	c.inFlight += n
	c.pending = 0
	return n
}

// added notes that n was added to the table, or may have been: if it was lost on
// the way it still counts here.
func (c *count) added(n int64) {
	c.inFlight -= n
	c.shared += n
}

// notAdded notes that n was certainly not added to the table, so that the next
// exchange adds it.
func (c *count) notAdded(n int64) {
	c.inFlight -= n
	c.pending += n
}

// setShared takes over the table's count, which never falls within a minute.
func (c *count) setShared(total int64) { c.shared = max(c.shared, total) }

// delta is what an exchange adds to the count of one key or address in the table.
type delta struct {
	workspaceID string // noWorkspace for addresses
	subject     string // a key's id, or an address
	minute, n   int64
}

// noWorkspace stands for the workspace in counts of addresses, which belong to none.
// No workspace can have this id.
const noWorkspace = "*"
