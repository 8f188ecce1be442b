// Command ledgerfeed is the service and the commands that operate it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // where the system has no time zones, as in a container image

	_ "golang.org/x/crypto/x509roots/fallback" // where it has no certificates of authorities

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	env := &operate.Env{Env: cli.Env{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Clock: time.Now}}
	code := env.Execute(ctx, rootCommand(env), os.Args[1:])
	stop()
	os.Exit(code)
}
