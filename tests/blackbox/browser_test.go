package blackbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// testBrowser opens the documentation pages of a demo in a headless Chromium, walks through its pages for people,
// mends mistakes there, counts the clicks of daily tasks, follows an order from the slicer and the shop to a chat,
// chooses in all pickers, and audits the pages. PLAYWRIGHT_CORE is the directory of the npm package playwright-core if
// Node.js does not find it, CHROMIUM the path of the browser if it is not /usr/bin/chromium, and PAGE_TOOLS a directory
// with the npm packages axe-core and vnu-jar, without which nothing is audited.
func testBrowser(t *testing.T, p program) {
	testkit.Rig(t)
	needTools(t, "node", browserPath())
	folder, err := filepath.Abs("testdata/browser")
	check(t, err)
	script := filepath.Join(folder, "docs.mjs")
	if core := os.Getenv("PLAYWRIGHT_CORE"); core != "" {
		if _, err := os.Stat(filepath.Join(core, "package.json")); err != nil {
			skipTest(t, "PLAYWRIGHT_CORE is not the directory of playwright-core")
		}
	} else {
		const load = "require('module').createRequire(process.argv[1])('playwright-core')"
		if exec.Command("node", "-e", load, script).Run() != nil {
			skipTest(t, "playwright-core is not installed, and PLAYWRIGHT_CORE is not set")
		}
	}

	temporary := tempDir(t)
	check(t, os.Chmod(temporary, 0o777))
	c := p.start(t, []string{"TMPDIR=" + temporary, "RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0",
		"WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8", "WATCH=off"}, "demo") // runs move only as the scripts click
	operations := strconv.Itoa(len(programRoutes(t)))
	run := func(t *testing.T, script string, more ...string) {
		node := exec.Command("node",
			append([]string{filepath.Join(folder, script), c.url, "demo@farm.example", "demo-password"}, more...)...)
		node.Env = append(os.Environ(), "CHROMIUM="+browserPath(), "TMPDIR="+temporary)
		out, err := node.CombinedOutput()
		t.Logf("%s", out)
		check(t, err)
	}
	t.Cleanup(func() { c.stop(t, syscall.SIGTERM) })
	t.Run("Docs", func(t *testing.T) {
		t.Parallel() // the script changes nothing
		run(t, "docs.mjs", operations)
	})
	t.Run("Pages", func(t *testing.T) {
		t.Parallel()
		for _, script := range []string{"pages.mjs", "mend.mjs", "tasks.mjs", "story.mjs", "pickers.mjs", "session.mjs"} {
			begin := time.Now()
			run(t, script)
			t.Logf("%s: %s", script, time.Since(begin).Round(time.Second))
		}
		if os.Getenv("PAGE_TOOLS") == "" {
			skipTest(t, "PAGE_TOOLS is not set")
		}
		needTools(t, "java")
		run(t, "audit.mjs")
	})
}

func browserPath() string {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	return "/usr/bin/chromium"
}
