// Package rollup counts requests, delivery attempts and events by interval, for the charts of the
// console. Pages read only these counts and never the rows behind them, so they cost the same
// however much happened.
//
// What it promises:
//
//   - Nothing waits for it. Requests and attempts are counted in memory and written by a separate
//     goroutine. A row that another transaction has locked delays only the counts of its own
//     workspace.
//   - Memory and rows are bounded by the keys, webhooks and kinds of outcomes of a workspace, never
//     by what callers send.
//   - Counts of events are exact. Counts of requests and attempts may differ by what a process
//     counted in the seconds before it died, or before it lost the database in the middle of a
//     commit.
package rollup
