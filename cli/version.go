package cli

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is the release. All packages, clients and documents use this constant.
const Version = "1.0.0"

// commit is the Git commit of a release. tools/release sets it: a release is built without version control
// information, so that two builds of the same source are identical.
var commit string

// BuildVersion returns the release and, if known, the first 12 digits of the commit: 1.0.0 (0123456789ab).
func BuildVersion() string {
	c := commit
	if info, ok := debug.ReadBuildInfo(); ok && c == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				c = s.Value
			}
		}
	}
	if c == "" {
		return Version
	}
	return Version + " (" + c[:min(12, len(c))] + ")"
}

// VersionCommand is the command version.
var VersionCommand = Command{
	Name: "version", Args: "[-sbom]",
	Help: "show the version, Go's version and the modules, or the software bill of materials\n(CycloneDX JSON)",
	Setup: func(flags *flag.FlagSet) Run {
		bill := flags.Bool("sbom", false, "write the software bill of materials")
		return func(_ context.Context, c *Call) error {
			info, ok := debug.ReadBuildInfo()
			if ok && *bill {
				_, err := c.Out.Write(BillOfMaterials(info))
				return err
			}
			text := fmt.Sprintf("spoolwright %s\n%s %s/%s\n", BuildVersion(), runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			if ok {
				for _, m := range info.Deps {
					text += m.Path + " " + m.Version + "\n"
				}
			}
			_, err := fmt.Fprint(c.Out, text)
			return err
		}
	},
}
