// Package testdb gives every test a PostgreSQL database of its own, cheaply.
//
// A test package calls [Main] from its TestMain. The first [New] starts one
// throwaway server for the process, migrates a template database once, and
// every call clones it in some ten milliseconds. The server's data lies in
// memory where the system has /dev/shm, durability is off, and its keeper
// removes everything when the test process ends, however it ends.
//
// Each process has a directory, a socket and a server to itself, so that `go
// test ./...` may run any number of packages side by side.
//
// A server that cannot start fails the tests that need it, with the reason. It
// never skips them.
package testdb
