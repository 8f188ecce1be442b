// Package waiting lets requests wait until the visible position of a workspace has moved
// (docs/contract/decisions.md, "Waiting" and "Positions").
//
// However many wait, one goroutine reads the positions: of all workspaces that were
// notified of, with one statement. A waiting request holds no connection to the database
// and costs no statement while nothing happens. A notification may be lost, so positions
// are also read now and then: every second of workspaces whose position a request must
// reach, and every five seconds of all that are waited for.
package waiting
