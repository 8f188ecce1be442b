// Package badnetwork is a TCP proxy that breaks connections on request in the ways that networks
// do: they are reset, go silent without being closed, become slow, or are refused.
//
// A silent connection stays open on both sides, as if a middlebox had forgotten it: what one side
// sends is acknowledged and lost, and if one side closes, the other never hears of it. Connections
// made later work. That difference between old and new connections is how a failed middlebox looks
// to a program.
package badnetwork
