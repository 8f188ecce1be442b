// Package archtest holds the tests about the source tree itself: who may
// import whom, and what no package may contain. It has no code of its own.
package archtest
