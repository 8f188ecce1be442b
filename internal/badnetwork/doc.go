// Package badnetwork is a TCP proxy whose connections break on request in the ways
// in which networks break: they are reset, go silent without an end, become slow,
// or are refused.
//
// A connection that has gone silent stays open on both sides, as when a middlebox
// has forgotten it: what is sent into it is acknowledged and lost, and the end of
// one side never reaches the other. Connections made later work. That difference
// between old and new connections is what a failed middlebox looks like to a
// program.
package badnetwork
