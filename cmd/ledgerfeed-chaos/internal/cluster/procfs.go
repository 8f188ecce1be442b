//go:build linux

package cluster

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// onOwnThread calls do on a thread that lives until it returns: a process that is to
// end with its parent ends with the thread that started it.
func onOwnThread(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return do()
}

// processesIn lists the processes that work in a directory.
func processesIn(dir string) (list []int) {
	names, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil
	}
	for _, name := range names {
		if at, err := os.Readlink(name); err != nil || at != dir {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// usage is what a process holds.
type usage struct {
	resident    int64 // bytes
	virtual     int64 // bytes
	descriptors int
}

// usageOf reads what a process holds; false when it has ended.
func usageOf(pid int) (u usage, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(filepath.Join(dir, "statm"))
	if err != nil {
		return u, false
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return u, false
	}
	size, err1 := strconv.ParseInt(fields[0], 10, 64)
	resident, err2 := strconv.ParseInt(fields[1], 10, 64)
	open, err3 := os.ReadDir(filepath.Join(dir, "fd"))
	if err1 != nil || err2 != nil || err3 != nil || resident == 0 {
		return u, false
	}
	page := int64(os.Getpagesize())
	return usage{resident * page, size * page, len(open)}, true
}
