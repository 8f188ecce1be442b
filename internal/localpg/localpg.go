package localpg

import (
	"fmt"
	"log/slog"
	"strings"
)

// Config says where the server lives and how it runs.
type Config struct {
	// DataDir is the data directory, absolute or relative to the working directory. It is created
	// if it does not exist. For root, another directory may be used: see [Server.DataDir].
	DataDir string

	// Logger receives what an operator should know: which directory is used instead of DataDir,
	// that PostgreSQL is being installed, what the program waits for. Nil discards it.
	Logger *slog.Logger

	// TakeOver restarts the server in this process if its owner, another process, ends. Connections
	// break, and work again after about a second. Set it for long-running programs that survive
	// that. A closing owner does not wait for them.
	TakeOver bool

	// Throwaway gives up durability for speed. A crash of the machine destroys
	// the data. For tests only.
	Throwaway bool
}

// databaseName names both the database and the role that are created for the program.
const databaseName = "ledgerfeed"

// DatabaseURL returns the address of another database on the local server. url is the server's URL
// ([Server.URL]).
func DatabaseURL(url, database string) string {
	return strings.Replace(url, "/"+databaseName+"?", "/"+database+"?", 1)
}

// DiskFullError reports that the server ended or did not start while its disk had no space left.
type DiskFullError struct {
	DataDir string
	Free    int64 // bytes
	Err     error // how the server ended, with the end of its log
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("the disk of %s is full (%d MiB free). Nothing acknowledged is lost. Free space, then start again", e.DataDir, e.Free>>20)
}

func (e *DiskFullError) Unwrap() error { return e.Err }
