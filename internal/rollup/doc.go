// Package rollup counts requests, attempts to deliver and events by interval, for the
// charts of the console. Pages read these counts alone and never the rows that they
// count, so they cost the same however much happened.
//
// What it promises:
//
//   - Nothing waits for it. Requests and attempts are counted in memory and written by
//     a goroutine of its own; a row that another transaction has locked delays the
//     counts of its workspace, and no others.
//   - Memory and rows are bounded: by the keys, webhooks and kinds of outcomes of a
//     workspace, never by what callers send.
//   - Counts of events are exact. Those of requests and attempts may differ by what
//     a process counted in the seconds before it died, or before it lost the database
//     in the middle of a commit.
package rollup
