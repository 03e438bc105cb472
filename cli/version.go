package cli

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
)

// Version is the release.
const Version = "1.0.0"

// BuildVersion returns the release and, if the program was built from a checkout, the revision.
func BuildVersion() string {
	v := Version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " (" + s.Value[:min(12, len(s.Value))] + ")"
			}
		}
	}
	return v
}

// VersionCommand is the command version.
var VersionCommand = Command{
	Name: "version", Args: "[-sbom]",
	Help: "show the version, or the software bill of materials (CycloneDX JSON)",
	Setup: func(flags *flag.FlagSet) Run {
		bill := flags.Bool("sbom", false, "write the software bill of materials")
		return func(_ context.Context, c *Call) error {
			if info, ok := debug.ReadBuildInfo(); ok && *bill {
				_, err := c.Out.Write(sbom(info))
				return err
			}
			_, err := fmt.Fprintln(c.Out, "spoolwright", BuildVersion())
			return err
		}
	},
}
