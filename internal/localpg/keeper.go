package localpg

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// keeper runs one server for its users. All fields belong to the goroutine of
// run; other goroutines speak to it through the channels.
type keeper struct {
	job      assignment
	log      *slog.Logger
	lock     *os.File
	listener *net.UnixListener

	users map[*keptUser]struct{}
	joins chan net.Conn
	parts chan parting
	notes chan string
	quit  chan struct{} // closed when nobody is taken in any more
}

// keptUser is one user's connection.
type keptUser struct{ conn net.Conn }

// parting says that a user leaves.
type parting struct {
	user   *keptUser
	polite bool // it said so and waits for the connection to end
}

// signalGrace is how long the users may take to leave after the keeper was
// asked to end. A system that shuts down, or a service manager, signals all
// processes at once, and a program that is finishing its work needs its server.
const signalGrace = 10 * time.Second

// runKeeper is the keeper's main; its result is the exit status.
func runKeeper() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())
	k, first, err := newKeeper(log)
	if err != nil {
		log.Error("keeper cannot begin", "error", err)
		return 1
	}
	if err := k.run(first); err != nil {
		log.Error("keeper ends", "error", err)
		return 1
	}
	log.Info("keeper ends: the last user left")
	return 0
}

// newKeeper takes what the first user passed on and begins to listen.
func newKeeper(log *slog.Logger) (*keeper, net.Conn, error) {
	// Descriptors passed on purpose survive exec; from here on only the lock
	// shall, and that one is given to postgres by name.
	syscall.CloseOnExec(keeperLockFD)
	syscall.CloseOnExec(keeperUserFD)
	lock := os.NewFile(keeperLockFD, lockName)
	user := os.NewFile(keeperUserFD, "first user")
	conn, err := net.FileConn(user)
	_ = user.Close()
	if err != nil {
		return nil, nil, fmt.Errorf("a keeper is started by localpg.Open only: %w", err)
	}
	k := &keeper{
		log: log, lock: lock,
		users: map[*keptUser]struct{}{},
		joins: make(chan net.Conn), parts: make(chan parting), notes: make(chan string),
		quit: make(chan struct{}),
	}
	line, err := readLine(conn)
	if err != nil {
		return nil, nil, fmt.Errorf("read the assignment: %w", err)
	}
	if err := json.Unmarshal(line, &k.job); err != nil {
		return nil, nil, fmt.Errorf("read the assignment: %w", err)
	}
	if err := recordKeeper(lock); err != nil {
		return nil, nil, fmt.Errorf("write the lock file: %w", err)
	}
	if err := k.listen(); err != nil {
		err = fmt.Errorf("listen for users of the local PostgreSQL: %w", err)
		_ = writeLine(conn, message{Kind: messageFailed, Text: err.Error()})
		return nil, nil, err
	}
	return k, conn, nil
}

// listen opens keeper.sock. A file of that name is a dead keeper's: the lock
// is ours.
func (k *keeper) listen() error {
	path := k.job.Place.listenPath()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	if o := k.job.Place.Owner; o.other() {
		if err := os.Lchown(path, o.UID, o.GID); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	k.listener = l
	return nil
}

// run keeps the server until the last user has left, the server has ended by
// itself, or the system asks the keeper to end.
func (k *keeper) run(first net.Conn) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP)

	go k.accept()
	k.admit(first)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type startResult struct {
		pm  *postmaster
		err error
	}
	starting := make(chan startResult, 1)
	go func() {
		pm, err := startPostgres(ctx, k.job, k.lock, k.note)
		starting <- startResult{pm, err}
	}()

	var (
		pm     *postmaster
		exited <-chan struct{}  // nil, which never fires, until there is a server
		began  = starting       // nil once it has been read
		grace  <-chan time.Time // nil until a signal asks the keeper to end
		end    message          // what remaining users are told
		cause  error
	)
	for cause == nil {
		select {
		case conn := <-k.joins:
			u := k.admit(conn)
			if pm != nil {
				k.tell(u, k.ready(pm))
			}
		case p := <-k.parts:
			if k.dismiss(p) {
				cause = errLastLeft
			}
		case text := <-k.notes:
			k.log.Info(text)
			k.tellAll(message{Kind: messageNote, Text: text})
		case r := <-began:
			began = nil
			if r.err != nil {
				cause = r.err
				end = message{Kind: messageFailed, Text: r.err.Error()}
				break
			}
			pm, exited = r.pm, r.pm.exited
			k.log.Info("PostgreSQL is ready", "postmaster", pm.pid())
			k.tellAll(k.ready(pm))
		case <-exited:
			cause = fmt.Errorf("PostgreSQL ended unexpectedly: %w; the end of %s:\n%s", pm.exitErr, k.job.Place.file(serverLogName), pm.logTail())
			end = message{Kind: messageGone, Text: cause.Error()}
		case s := <-signals:
			if grace == nil {
				k.log.Info("asked to end, waiting for the users to leave", "signal", s)
				grace = time.After(signalGrace)
				break
			}
			cause = fmt.Errorf("its keeper was asked twice to end (%v)", s)
			end = message{Kind: messageGone, Text: cause.Error()}
		case <-grace:
			cause = fmt.Errorf("its keeper was asked to end, and its users did not leave within %v", signalGrace)
			end = message{Kind: messageGone, Text: cause.Error()}
		}
	}

	// From here nobody is taken in: a user that connects now finds the
	// connection closed and tries again.
	close(k.quit)
	_ = k.listener.Close()
	cancel()
	if began != nil {
		pm = (<-began).pm
	}
	err := k.finish(pm)
	if end.Kind != "" {
		k.tellAll(end)
	}
	_ = k.lock.Close()
	for u := range k.users {
		_ = u.conn.Close()
	}
	if errors.Is(cause, errLastLeft) {
		return err
	}
	return errors.Join(cause, err)
}

// errLastLeft ends run the way it is meant to end.
var errLastLeft = errors.New("the last user left")

// finish stops the server and cleans up, with the lock still held.
func (k *keeper) finish(pm *postmaster) error {
	var err error
	if pm != nil {
		err = pm.stop(k.job.Throwaway)
	}
	k.job.Place.dropSockets()
	if k.job.Remove {
		err = errors.Join(err, k.job.Place.removeAll())
	}
	return err
}

// accept hands connections to run until the listener is closed.
func (k *keeper) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return
		}
		select {
		case k.joins <- conn:
		case <-k.quit:
			_ = conn.Close()
		}
	}
}

// admit counts a connection as a user. From now on the server stays for it.
func (k *keeper) admit(conn net.Conn) *keptUser {
	u := &keptUser{conn: conn}
	k.users[u] = struct{}{}
	go func() {
		line, err := readLine(conn)
		select {
		case k.parts <- parting{user: u, polite: err == nil && string(line) == leaveLine}:
		case <-k.quit:
		}
	}()
	return u
}

// dismiss lets a user go and tells whether it was the last one. The polite
// last user is kept: its connection ends with the keeper, after the server.
func (k *keeper) dismiss(p parting) (last bool) {
	if len(k.users) == 1 {
		if !p.polite {
			delete(k.users, p.user)
			_ = p.user.conn.Close()
		}
		return true
	}
	delete(k.users, p.user)
	if p.polite {
		k.tell(p.user, message{Kind: messageBye})
	}
	_ = p.user.conn.Close()
	return false
}

// ready is what a user has been waiting for.
func (k *keeper) ready(pm *postmaster) message {
	return message{Kind: messageReady, URL: pm.url, Keeper: os.Getpid(), Parent: os.Getppid()}
}

// note passes progress from the starting goroutine to the users.
func (k *keeper) note(text string) {
	select {
	case k.notes <- text:
	case <-k.quit:
	}
}

func (k *keeper) tellAll(m message) {
	for u := range k.users {
		k.tell(u, m)
	}
}

// tell never waits long for a user that does not read, and does not care about
// one that is gone: its parting arrives by itself.
func (k *keeper) tell(u *keptUser, m message) {
	_ = u.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = writeLine(u.conn, m)
}

// readLine reads a first line and nothing behind it that anybody needs.
func readLine(conn net.Conn) ([]byte, error) {
	return bufio.NewReader(conn).ReadBytes('\n')
}
