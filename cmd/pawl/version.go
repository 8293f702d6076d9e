package main

import (
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// build is this program's version as JSON.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version.
func (c *versionCmd) Run(s *session) error { //nolint:unparam // kong wants the error
	b := build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, set := range info.Settings {
			switch set.Key {
			case "vcs.revision":
				b.Revision = set.Value
			case "vcs.modified":
				b.Modified = set.Value == "true"
			}
		}
	}
	if s.json {
		s.out.json(b)
		return nil
	}
	s.out.printf("pawl %s %s %s\n", b.Version, b.Go, b.Platform)
	return nil
}
