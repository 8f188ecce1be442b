package localpg

import (
	"log/slog"
	"strings"
)

// Config says where the server lives and how it runs.
type Config struct {
	// DataDir is the data directory, absolute or relative to the working
	// directory; it is made if it does not exist. Started by root, another
	// directory may be used, see [Server.DataDir].
	DataDir string

	// Logger receives what an operator should know: which directory is used
	// instead of DataDir, that PostgreSQL is being installed, what the program
	// waits for. Nil discards it.
	Logger *slog.Logger

	// TakeOver starts the server again in this process if its owner, another
	// process, ends. Connections break, and succeed again after about a second. It
	// is for programs that run for long and survive that. An owner that closes does
	// not wait for them.
	TakeOver bool

	// Throwaway gives up durability for speed. A crash of the machine destroys
	// the data. For tests only.
	Throwaway bool
}

// databaseName is the database and the role that are made for the program.
const databaseName = "ledgerfeed"

// DatabaseURL is the address of another database of the program's own server, whose URL
// it is given.
func DatabaseURL(url, database string) string {
	return strings.Replace(url, "/"+databaseName+"?", "/"+database+"?", 1)
}
