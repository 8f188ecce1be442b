package measure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

const mebibyte = 1 << 20

// PeakMemory is the most memory that the process has held since ResetPeak, in
// MiB, as the system counts it; 0 where the system does not tell.
func PeakMemory() float64 {
	m, err := MemoryOf("self")
	if err != nil {
		return 0
	}
	return MiB(m.Peak)
}

// Memory is what a process has resident, in bytes: now, and at its peak.
type Memory struct{ Now, Peak float64 }

// MemoryOf reads the memory of a process, by its id, where the system has /proc.
func MemoryOf(pid string) (m Memory, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return m, fmt.Errorf("cannot read the memory of a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmRSS": &m.Now, "VmHWM": &m.Peak}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return m, fmt.Errorf("cannot read the memory of a process: %w", err)
		}
		*into = kib * 1024
	}
	return m, nil
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
