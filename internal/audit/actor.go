package audit

import (
	"context"
	"os"
	"os/user"
)

// Via is where a change was made.
type Via string

// Where changes are made.
const (
	ViaConsole Via = "console"
	ViaCommand Via = "command"
	ViaService Via = "service" // by a serving process itself
)

// Actor is who makes a change.
type Actor struct {
	Via  Via
	Name string // for people; many identity providers let people choose it themselves

	// Issuer and Subject identify a person independently of the name: the identity provider's
	// address, and its permanent id of the person. For a sign-in link, Issuer is empty and Subject
	// is the link's id, as in the line about its creation. Commands and the service have neither.
	Issuer, Subject string
}

type actorKey struct{}

// As returns a context that attributes changes to the actor. Without an actor in the context,
// changes are attributed to the account that runs the program, as for commands.
func As(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// AsService returns a context that attributes changes to the serving process itself.
func AsService(ctx context.Context) context.Context {
	return As(ctx, Actor{Via: ViaService, Name: account()})
}

func actorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Via: ViaCommand, Name: account()}
}

// account returns the account that runs the program, as account@machine.
func account() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
