package measure

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

const mebibyte = 1 << 20

// PeakMemory is the most memory that the process has held since ResetPeak, in
// MiB, as the system counts it; 0 where the system does not tell.
func PeakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return MiB(kib * 1024)
		}
	}
	return 0
}

// ResetPeak lets PeakMemory start from the present. Where the system does not
// allow that, PeakMemory is of the whole run.
func ResetPeak() {
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// LiveHeap is the memory in use after a collection, in bytes.
func LiveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// MiB converts bytes.
func MiB(bytes float64) float64 { return bytes / mebibyte }
