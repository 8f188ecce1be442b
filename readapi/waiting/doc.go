// Package waiting lets requests wait until the visible position of a workspace has moved
// (docs/contract/decisions.md, "Waiting" and "Positions").
//
// One goroutine reads the positions for all waiting requests: one statement for all workspaces that
// were notified. A waiting request holds no database connection and costs no statement while
// nothing happens. A notification may be lost, so the goroutine also reads positions periodically:
// every second for workspaces where a request must reach a position, and every five seconds for all
// workspaces with a waiting request.
package waiting
