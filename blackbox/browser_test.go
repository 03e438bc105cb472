package blackbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// testBrowser looks at the documentation pages of a demo in a headless browser. PLAYWRIGHT_CORE names the folder of the
// npm package playwright-core where Node.js does not find it by itself, CHROMIUM the browser.
func testBrowser(t *testing.T, p program) {
	for _, tool := range []string{"node", browserPath()} {
		if _, err := exec.LookPath(tool); err != nil {
			skipTest(t, tool+" is not installed")
		}
	}
	script, err := filepath.Abs("testdata/browser/docs.mjs")
	check(t, err)
	if core := os.Getenv("PLAYWRIGHT_CORE"); core != "" {
		if _, err := os.Stat(filepath.Join(core, "package.json")); err != nil {
			skipTest(t, "PLAYWRIGHT_CORE names no folder of playwright-core")
		}
	} else if exec.Command("node", "-e", "require('module').createRequire(process.argv[1])('playwright-core')", script).Run() != nil {
		skipTest(t, "playwright-core is not installed, and PLAYWRIGHT_CORE is not set")
	}

	temporary := tempDir(t)
	check(t, os.Chmod(temporary, 0o777))
	c := p.start(t, []string{"TMPDIR=" + temporary}, "demo")
	node := exec.Command("node", script, c.url, "demo@farm.example", "demo-password", strconv.Itoa(len(programRoutes(t))))
	node.Env = append(os.Environ(), "CHROMIUM="+browserPath(), "TMPDIR="+temporary)
	out, err := node.CombinedOutput()
	t.Logf("%s", out)
	check(t, err)
	c.stop(t, syscall.SIGTERM)
}

func browserPath() string {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	return "/usr/bin/chromium"
}
