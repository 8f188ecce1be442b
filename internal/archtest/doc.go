// Package archtest holds the tests about the source tree itself: what its documents link to, what
// its statements name, and what its rules may not use. Who may import whom is in .golangci.yml
// (depguard). The package has no code of its own, needs no database and runs in a few seconds.
package archtest
