// Package localpg runs the PostgreSQL that Ledgerfeed uses when it is not given
// a DATABASE_URL.
//
// What it promises:
//
//   - A data directory has one server. The program that opens it first owns the
//     server, as its child process; programs that open it meanwhile join.
//   - An owner that closes waits, for a bounded time, for programs that have joined
//     and are in the middle of their work. Programs that run for long set
//     [Config.TakeOver] instead: when the owner ends, one of them starts the server
//     again and owns it, and the others join that one.
//   - However the owner ends, kill -9 included, the server shuts down cleanly.
//     However the server ends, the next Open recovers it. Other programs that had
//     joined get an error that says what happened ([Server.Explain]).
//   - A data directory is never erased and never given to another major version of
//     PostgreSQL.
//   - The server listens on a Unix socket only, and lets in only the account that
//     started it. Programs check that the server is run by the account they expect.
//     A data directory of another account is refused.
//
// # How it works
//
// The owner holds the lock of the data directory (flock on server.lock), and the
// server's processes inherit it. The lock is free only when the owner, the
// postmaster and the backends are all gone, so taking it and waiting until the
// server of a killed owner has shut down are the same thing. A program that does
// not get the lock connects to the server and keeps that connection, which ends
// when the server ends. On it, the program takes a shared advisory lock. An owner
// that closes takes the same lock exclusively, and so waits for them.
//
// On Linux the kernel asks the server to shut down when its owner dies. Elsewhere
// the next program that opens the directory does.
//
// # Accounts
//
// The directory and the files in it must belong to the account that runs the
// program, or to root (package datadir). PostgreSQL refuses to run as root, so
// for root the server runs as postgres or nobody, and in a group that has no name
// and no members. The data directory is root's, with that group and mode 0710. So
// other processes of the server's account reach neither the socket nor the data,
// and cannot attach to the server's processes. They can signal them.
//
// pg_hba.conf and pg_ident.conf are root's too (without root, the account's own),
// outside of the cluster, and written at each start. The only rule is peer
// authentication, which maps the account that started the server to its one role.
// The server's URL names the server's account (requirepeer), and package pg checks
// it at every connection.
//
// # Files
//
//	server.lock    the lock; holds the owner's process id
//	postgres.log   the server's log
//	pg_hba.conf    who may connect
//	pg_ident.conf  as which role
//	pgdata/        the cluster
//	run/           the server's socket, mode 0700; in a directory in /tmp if the
//	               path is too long for a socket
package localpg
