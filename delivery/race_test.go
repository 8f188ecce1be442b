//go:build race

package delivery_test

// raceDetector tells whether the tests run under the race detector.
const raceDetector = true
