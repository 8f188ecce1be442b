package localpg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// postmasterPatience bounds the wait for a server that runs in the cluster
// although the lock is free: one that somebody started by hand.
const postmasterPatience = 60 * time.Second

// awaitPostmaster waits for a server in the cluster to go away and clears the
// file of one that has. PostgreSQL checks the file too, but only by asking
// whether the process id is taken; after a restart of a container it easily is,
// by a process that has nothing to do with it.
func awaitPostmaster(ctx context.Context, cluster string, note func(string)) error {
	deadline := time.Now().Add(postmasterPatience)
	for told := false; ; told = true {
		pid, live := livePostmaster(cluster)
		if !live {
			break
		}
		if !told {
			note(fmt.Sprintf("waiting for another PostgreSQL server, process %d, that runs in %s", pid, cluster))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another PostgreSQL server, process %d, runs in %s and was not started by this program: stop it, or choose another data directory", pid, cluster)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	err := os.Remove(filepath.Join(cluster, "postmaster.pid"))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("clear the process id of a server that is gone: %w", err)
	}
	return nil
}

// livePostmaster reads postmaster.pid and tells whether that process is alive
// and really a server of this cluster.
func livePostmaster(cluster string) (pid int, live bool) {
	text, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err = strconv.Atoi(string(bytes.TrimSpace(first)))
	if err != nil || pid <= 0 || syscall.Kill(pid, 0) == syscall.ESRCH {
		return 0, false
	}
	// A postmaster works in its cluster's directory.
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		return pid, cwd == cluster
	}
	name, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "comm=").Output()
	if err != nil {
		return pid, true // not known: PostgreSQL's own check decides
	}
	name = bytes.ToLower(name)
	return pid, bytes.Contains(name, []byte("postgres")) || bytes.Contains(name, []byte("postmaster"))
}
