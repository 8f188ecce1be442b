// Package localpg runs the PostgreSQL that Ledgerfeed uses when no DATABASE_URL is set.
//
// What it promises:
//
//   - Each data directory has one server. The first program to open the directory owns the server
//     and runs it as a child process. Programs that open it later join that server.
//   - A closing owner waits, for a limited time, until joined programs have finished. Long-running
//     programs set [Config.TakeOver] instead: when the owner ends, one of them starts the server
//     again and owns it, and the others join that one.
//   - However the owner ends, kill -9 included, the server shuts down cleanly. However the server
//     ends, the next Open recovers it. Programs that had joined get an error that says what
//     happened ([Server.Explain]).
//   - A data directory is never erased and never given to another major version of PostgreSQL.
//   - The server listens on a Unix socket only, and lets in only the account that started it.
//     Programs check that the expected account runs the server, and refuse a data directory that
//     belongs to another account.
//
// # How it works
//
// The owner holds the lock of the data directory (flock on server.lock), and the server's processes
// inherit it. The lock is free only when the owner, the postmaster and the backends are all gone,
// so a program that takes it knows that a killed owner's server has shut down. A program that does
// not get the lock connects to the server and keeps that connection, which ends when the server
// ends. Without Config.TakeOver it also takes a shared advisory lock there. A closing owner takes
// the same lock exclusively, and so waits for these programs.
//
// On Linux the kernel asks the server to shut down when its owner dies. Elsewhere the next program
// that opens the directory does.
//
// # Accounts
//
// The directory and the files in it must belong to the account that runs the program, or to root
// (package datadir). PostgreSQL refuses to run as root. If root starts the program, the server runs
// as postgres or nobody, in a group without a name or members, and root owns the data directory,
// with that group and mode 0710. So other processes of the server's account cannot reach the socket
// or the data, and cannot attach to the server's processes. They can signal them.
//
// Root also owns pg_hba.conf and pg_ident.conf (without root, the account itself does). They are
// outside the cluster and are written at each start. The only rule is peer authentication, which
// maps the account that started the server to its one role. The server's URL names the server's
// account (requirepeer), and package pg checks it at every connection.
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
