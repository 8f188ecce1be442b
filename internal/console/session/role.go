// Package session keeps who is signed in to the console: sign-in links, sessions,
// and the role that a person has in a workspace. Any number of processes may
// share a database.
package session

// Role is what a person may do in a workspace.
type Role string

// The roles.
const (
	Viewer Role = "viewer" // may look
	Admin  Role = "admin"  // may also change
)

// ParseRole reads a role by its name.
func ParseRole(name string) (Role, bool) {
	switch r := Role(name); r {
	case Viewer, Admin:
		return r, true
	}
	return "", false
}

// Grant is a role in a workspace. Sessions are stored with their grants as JSON.
type Grant struct {
	Workspace string `json:"workspace"`
	Role      Role   `json:"role"`
}
