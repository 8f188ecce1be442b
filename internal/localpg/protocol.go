package localpg

import (
	"encoding/json"
	"fmt"
	"io"
)

// keeperEnv marks a process as a keeper. It is an environment variable and
// not only an argument so that a binary whose main forgot RunKeeperIfAsked
// finds it in Open and stops there, instead of executing itself for ever.
const keeperEnv = "LEDGERFEED_KEEPER"

// The descriptors a keeper is born with, after the three standard ones.
const (
	keeperLockFD = 3
	keeperUserFD = 4
)

// leaveLine is the only thing a user ever says: that it leaves on purpose.
// Closing the connection without it means the same; said politely, the last
// user's connection stays open until the server has stopped.
const leaveLine = "leave\n"

// assignment is what the first user, who has resolved paths and accounts,
// tells the keeper over the connection it passes on.
type assignment struct {
	Place     place             `json:"place"`
	Search    search            `json:"search"`
	Throwaway bool              `json:"throwaway,omitempty"`
	Remove    bool              `json:"remove,omitempty"`
	Settings  map[string]string `json:"settings,omitempty"`
}

// messageKind names what a keeper tells its users.
type messageKind string

const (
	messageNote   messageKind = "note"   // progress worth a log line
	messageReady  messageKind = "ready"  // the server takes connections; the user is held
	messageFailed messageKind = "failed" // the server could not be started
	messageGone   messageKind = "gone"   // the server ended while it had users
	messageBye    messageKind = "bye"    // the user may go, others remain
)

// message is one line from the keeper to a user.
type message struct {
	Kind   messageKind `json:"kind"`
	Text   string      `json:"text,omitempty"`
	URL    string      `json:"url,omitempty"`
	Keeper int         `json:"keeper,omitempty"` // the keeper's process id
	Parent int         `json:"parent,omitempty"` // who started it, and has to reap it
}

// writeLine writes v as one line of JSON in a single write.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message between keeper and user: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
