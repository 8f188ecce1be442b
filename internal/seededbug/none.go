//go:build !seededbug_checkpoint && !seededbug_position && !seededbug_chain && !seededbug_acknowledge && !seededbug_visible && !seededbug_retry && !seededbug_signature && !seededbug_ties && !seededbug_payouts && !seededbug_outbox && !seededbug_relay && !seededbug_ingest

package seededbug

// Active is the bug of this build.
const Active = None
