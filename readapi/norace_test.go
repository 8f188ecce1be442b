//go:build !race

package readapi_test

const raceDetected = false
