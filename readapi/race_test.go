//go:build race

package readapi_test

// raceDetected tells that the race detector is on, under which everything takes
// about ten times as long.
const raceDetected = true
