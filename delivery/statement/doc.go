// Package statement makes statements about webhooks: what became, for one webhook, of the
// events that were published on one day (UTC), as the database knows it at one moment. A
// statement is a text of plain lines, which docs/statements.md describes, and is signed as
// a note (internal/signingkey).
package statement
