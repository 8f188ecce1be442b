package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// BuildInfo describes a build, as the Go toolchain writes it into every binary. Fields that the toolchain did not write are empty. For example, go run
// writes no commit.
type BuildInfo struct {
	Version  string `json:"version"`  // such as v1.2.0; of a commit without a tag, a pseudo-version; "devel" when unknown
	Commit   string `json:"commit"`   // hash
	Date     string `json:"date"`     // of the commit, RFC 3339
	Modified bool   `json:"modified"` // files differed from the commit
	Go       string `json:"go"`       // version of Go, such as go1.26.8
	Platform string `json:"platform"` // such as linux/amd64
}

// ReadBuildInfo returns the build information of the running binary.
func ReadBuildInfo() BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return newBuildInfo(info)
}

func newBuildInfo(info *debug.BuildInfo) BuildInfo {
	i := BuildInfo{Version: info.Main.Version, Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// String is the line of the command version, without the name of the program.
func (i BuildInfo) String() string {
	var b strings.Builder
	b.WriteString(i.Version)
	if i.Commit != "" {
		fmt.Fprintf(&b, ", commit %s of %s", i.Commit, i.Date)
		if i.Modified {
			b.WriteString(", with changes")
		}
	}
	fmt.Fprintf(&b, ", %s %s", i.Go, i.Platform)
	return b.String()
}
