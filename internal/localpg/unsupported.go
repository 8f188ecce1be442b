//go:build !unix

package localpg

import (
	"context"
	"errors"
)

// Server is a program's hold on a server. There is none on this system.
type Server struct{ hold }

type hold interface {
	URL() string
	DataDir() string
	Done() <-chan struct{}
	Err() error
	Explain(err error) error
	Close(ctx context.Context) error
}

// Exists returns false.
func Exists(string) (bool, error) { return false, nil }

// Directory returns dataDir.
func Directory(dataDir string) (string, error) { return dataDir, nil }

// Open fails: a local PostgreSQL needs Unix sockets that identify the account at the other end.
func Open(context.Context, Config) (*Server, error) {
	return nil, errors.New("a local PostgreSQL is run on Linux and macOS only: set DATABASE_URL to a server you have")
}
