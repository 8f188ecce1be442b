package instancebench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
)

// tick is the unit of times in /proc on every Linux that there is.
const tick = time.Second / 100

// processStat is what /proc says of a process.
type processStat struct {
	parent        int
	own, children time.Duration // processor time; a child counts when it has ended
}

func readStat(pid string) (s processStat, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return s, fmt.Errorf("cannot read the processor time of a process: %w", err)
	}
	// The name, in parentheses, may have spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var n [5]int
	for i, field := range []int{1, 11, 12, 13, 14} {
		if len(fields) <= field {
			return s, fmt.Errorf("cannot read the processor time of process %s: %q", pid, text)
		}
		if n[i], err = strconv.Atoi(fields[field]); err != nil {
			return s, fmt.Errorf("cannot read the processor time of process %s: %w", pid, err)
		}
	}
	return processStat{n[0], time.Duration(n[1]+n[2]) * tick, time.Duration(n[3]+n[4]) * tick}, nil
}

// processTime is the processor time of a process so far.
func processTime(pid int) (time.Duration, error) {
	s, err := readStat(strconv.Itoa(pid))
	return s.own, err
}

// serverTime is the processor time of all processes of the database's server so far.
// The server has to be on this machine.
func serverTime(ctx context.Context, db *measure.Database) (time.Duration, error) {
	var backend int
	if err := db.Pool.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return 0, fmt.Errorf("cannot find the processes of the server: %w", err)
	}
	own, err := readStat(strconv.Itoa(backend))
	if err != nil {
		return 0, fmt.Errorf("the server has to be on this machine: %w", err)
	}
	server, err := readStat(strconv.Itoa(own.parent))
	if err != nil {
		return 0, err
	}
	sum := server.own + server.children
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("cannot list the processes: %w", err)
	}
	for _, path := range all {
		// A process that ends meanwhile is counted among its parent's children.
		if s, err := readStat(filepath.Base(path)); err == nil && s.parent == own.parent {
			sum += s.own
		}
	}
	return sum, nil
}
