//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// restartPause is how long a supervisor waits before it starts a process again.
const restartPause = 200 * time.Millisecond

// Process is a process of the program that serves. Like a service manager, it
// starts the process again whenever that ends.
type Process struct {
	Name  string
	API   string // http://host:port
	Admin string // http://host:port

	args     []string
	database string   // address of its way to the database
	listen   []string // settings of its addresses
	env      []string // set by Cluster.Start
	log      string

	mu          sync.Mutex
	program     string
	cmd         *exec.Cmd
	killed      bool // the present process was ended by a fault
	starts      int
	unexplained []End // that no fault asked for
	most        usage
}

// run keeps the process running until ctx ends, and then ends it.
func (p *Process) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.once(ctx)
		p.mu.Lock()
		if !p.killed && ctx.Err() == nil {
			p.unexplained = append(p.unexplained, End{time.Now(), fmt.Sprint(err)})
		}
		p.cmd = nil
		p.mu.Unlock()
		flow.Sleep(ctx, restartPause)
	}
}

// once runs the process to its end.
func (p *Process) once(ctx context.Context) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	return onOwnThread(func() error {
		p.mu.Lock()
		c := exec.CommandContext(ctx, p.program, p.args...)
		c.Env, c.Stdout, c.Stderr = p.env, log, log
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		c.Cancel = func() error {
			_ = c.Process.Signal(syscall.SIGCONT)
			return c.Process.Signal(syscall.SIGTERM)
		}
		c.WaitDelay = 30 * time.Second
		err := c.Start()
		p.cmd, p.killed = c, false
		p.starts++
		p.mu.Unlock()
		if err != nil {
			return fmt.Errorf("cannot start %s: %w", p.Name, err)
		}
		return c.Wait()
	})
}

// with calls do with the process's id, if it runs. Killing says that do ends it.
func (p *Process) with(killing bool, do func(pid int)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return false
	}
	p.killed = p.killed || killing
	do(p.cmd.Process.Pid)
	return true
}

// LogFile is the file that has what the process wrote, at all its starts.
func (p *Process) LogFile() string { return p.log }

// Kill kills the process.
func (p *Process) Kill() bool {
	return p.with(true, func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
}

// Terminate asks the process to end, as an operator does.
func (p *Process) Terminate() bool {
	return p.with(true, func(pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) })
}

// Pause stops the process; Resume lets it go on.
func (p *Process) Pause() bool {
	return p.with(false, func(pid int) { _ = syscall.Kill(pid, syscall.SIGSTOP) })
}

// Resume lets a process go on that Pause has stopped.
func (p *Process) Resume() bool {
	return p.with(false, func(pid int) { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

// Starve leaves the process so many bytes of address space more than it has. When
// it needs more it dies; that counts as the fault's doing.
func (p *Process) Starve(more int64) bool {
	return p.with(true, func(pid int) {
		if u, ok := usageOf(pid); ok {
			setAddressSpace(pid, uint64(u.virtual+more))
		}
	})
}

// Feed ends Starve.
func (p *Process) Feed() bool {
	return p.with(true, func(pid int) { setAddressSpace(pid, unix.RLIM_INFINITY) })
}

func setAddressSpace(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil) // fails only when it has ended
}

// Replace makes the process another build of the program, from its next start on.
func (p *Process) Replace(program string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.program = program
}

// sample notes what the process holds now.
func (p *Process) sample() {
	p.with(false, func(pid int) {
		if u, ok := usageOf(pid); ok {
			p.most.resident = max(p.most.resident, u.resident)
			p.most.descriptors = max(p.most.descriptors, u.descriptors)
		}
	})
}

// End is how a process ended.
type End struct {
	At  time.Time
	How string
}

// Summary says how a process fared.
type Summary struct {
	Name            string
	Starts          int
	Unexplained     []End // where no fault had asked for that
	MostMemory      int64 // resident bytes
	MostDescriptors int
}

// Summary says how the process has fared so far.
func (p *Process) Summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Summary{p.Name, p.starts, append([]End(nil), p.unexplained...), p.most.resident, p.most.descriptors}
}
