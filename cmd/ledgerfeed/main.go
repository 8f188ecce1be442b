// Command ledgerfeed is the whole product: the service, the commands that
// operate it, and its benchmarks.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ledgerfeed/ledgerfeed/internal/localpg"
)

func main() {
	localpg.RunKeeperIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
