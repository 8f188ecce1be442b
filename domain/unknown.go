package domain

import "fmt"

// UnknownWorkspaceError names a workspace that does not exist.
type UnknownWorkspaceError struct{ WorkspaceID string }

// Error names the workspace.
func (e *UnknownWorkspaceError) Error() string {
	return fmt.Sprintf("there is no workspace %q", e.WorkspaceID)
}
