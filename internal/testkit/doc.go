// Package testkit is what the tests of all packages share: a PostgreSQL
// database for each test, clocks that tests move, a buffer for log lines, and
// ways to wait.
//
// A test package calls [Main] from its TestMain. The first [NewDatabase] starts
// one throwaway server for the process and migrates a template database once;
// every call clones the template, which takes some tens of milliseconds. The
// server's data is in memory where the system has /dev/shm, durability is off,
// and everything is removed when the test process ends, however it ends.
//
// Each process has its own directory, socket and server, so `go test ./...` can
// run any number of packages at the same time.
//
// A server that cannot start fails the tests that need it, with the reason. It
// never skips them.
package testkit
