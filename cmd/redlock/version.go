package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (t *tool) versionCommand() *cobra.Command {
	cmd := manual("version")
	cmd.Args = noArguments
	// Whatever the environment says of nodes.
	cmd.PersistentPreRun = func(*cobra.Command, []string) {}
	cmd.Run = func(*cobra.Command, []string) {
		t.answer(struct {
			Version string `json:"version"`
			Go      string `json:"go"`
			OS      string `json:"os"`
			Arch    string `json:"arch"`
		}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}, "redlock %s\n", versionText())
	}
	return cmd
}

// versionText is the version, and with what it was built.
func versionText() string {
	return fmt.Sprintf("%s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// packaged is the version of a package. The build of the packages sets it, as they come from a clone, where Go
// does not know the module's version.
var packaged string

// version is the package's, or the module's as it was installed.
func version() string {
	if packaged != "" {
		return packaged
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
