package cli

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

func TestBuildInfo(t *testing.T) {
	t.Parallel()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}, {Key: "vcs.modified", Value: "false"}}
	changed := slices.Concat(commit[:2], []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}})
	for want, info := range map[string]debug.BuildInfo{
		"devel, go1.26.8 " + platform:                                                          {GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}},
		"v1.2.0, commit abc of 2026-11-22T10:00:00Z, go1.26.8 " + platform:                     {GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.0"}, Settings: commit},
		"v1.2.0+dirty, commit abc of 2026-11-22T10:00:00Z, with changes, go1.26.8 " + platform: {GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.0+dirty"}, Settings: changed},
	} {
		if got := newBuildInfo(&info).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if ReadBuildInfo().Go != runtime.Version() {
		t.Errorf("this binary: %+v", ReadBuildInfo())
	}
}
