// Command ledgerfeed-reader is for those who read a service over its API.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // where the system has no certificates of authorities

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/readers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	env := &cli.Env{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Clock: time.Now}
	code := env.Execute(ctx, readers.Root(env), os.Args[1:])
	stop()
	os.Exit(code)
}
