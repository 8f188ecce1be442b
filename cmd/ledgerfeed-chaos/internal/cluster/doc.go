// Package cluster runs what the faults are done to: PostgreSQL servers, with
// replicas and backups, and processes of the program, each a real process that can
// be killed, stopped and limited.
//
// Every process reaches the database through a proxy of its own (package network),
// whose upstream follows the server that is the primary, like the floating address
// of a managed database.
package cluster
