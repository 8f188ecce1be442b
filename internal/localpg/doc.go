// Package localpg runs the PostgreSQL that Ledgerfeed brings along when nobody
// gave it a DATABASE_URL.
//
// What it promises:
//
//   - One data directory has one server. The first [Open] starts it, later ones,
//     also of other processes, join it; when the last user leaves, the server
//     stops, and that user's [Server.Close] returns after it has stopped.
//   - However a user ends, kill -9 included, the server is shut down cleanly.
//     However the server ends, the next Open recovers it.
//   - A data directory is never erased and never handed to another major
//     version of PostgreSQL.
//   - The server listens on a Unix socket in a directory that only its account
//     (and root) may enter, and on nothing else.
//
// # How it works
//
// The first user takes the lock file of the data directory and passes it to a
// keeper: the program's own binary, executed again in a session of its own, so
// that the terminal's Ctrl-C does not reach it. The keeper runs postgres as its
// direct child and listens on keeper.sock. Every user holds one connection to
// it. A connection that ends, for whatever reason, is a user that left.
//
// The lock is inherited by postgres and its children. It is therefore free
// only when keeper, postmaster and backends are all gone, which makes "wait
// until the orphans of a killed keeper have shut down" and "take the lock" the
// same thing.
//
// In the data directory:
//
//	keeper.lock    the lock; holds the keeper's process id for people to read
//	keeper.sock    where users join
//	keeper.log     the keeper's own output
//	postgres.log   the server's log
//	pgdata/        the cluster
//	run/           the server's socket, mode 0700
//	sockets-at     present if the path was too long for sockets: where they are
//
// A main function, and a TestMain, that may reach Open calls [RunKeeperIfAsked]
// first of all.
package localpg
