package blackbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// metricName matches the names of this program's metrics in a PromQL expression.
var metricName = regexp.MustCompile(`\b(?:http|db_pool|webhook|go|process|spoolwright)_[a-z_]+`)

// dashboard is the part of deploy/grafana.json that the test reads.
type dashboard struct {
	Title  string
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// TestMonitoringFiles checks deploy/alerts.yml and deploy/grafana.json: they use metrics that the service has, and
// promtool of Prometheus accepts the expressions and runs testdata/alerts_test.yml.
func TestMonitoringFiles(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile("deploy/alerts.yml")
	check(t, err)
	text, err := os.ReadFile("deploy/grafana.json")
	check(t, err)
	var board dashboard
	check(t, json.Unmarshal(text, &board))
	var expressions []string
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}

	t.Run("Metrics", func(t *testing.T) {
		t.Parallel()
		p := buildProgram(t)
		address := freeAddress(t)
		c := p.start(t, []string{"DATA_DIR=" + tempDir(t) + "/data", "METRICS_ADDR=" + address})
		c.call(t, "", "GET", "/api/v1/spools", nil)
		var known string
		eventually(t, "/metrics has the state of the queue", func() bool { // which it omits while PostgreSQL is slow
			known = metrics(t, address)
			return strings.Contains(known, "\nwebhook_queue{")
		})
		for _, name := range metricName.FindAllString(string(alerts)+strings.Join(expressions, "\n"), -1) {
			if !strings.Contains(known, "\n"+name+"{") && !strings.Contains(known, "\n"+name+" ") {
				t.Errorf("the service has no metric %s", name)
			}
		}
		c.stop(t, syscall.SIGTERM)
	})

	t.Run("Promtool", func(t *testing.T) {
		t.Parallel()
		needTools(t, "promtool")
		dir := t.TempDir()
		test, err := os.ReadFile("testdata/alerts_test.yml")
		check(t, err)
		rules := strings.Builder{}
		rules.WriteString("groups:\n  - name: panels\n    rules:\n")
		variables := strings.NewReplacer("$job", "spoolwright", "$instance", ".+", "$__rate_interval", "1m")
		for i, e := range expressions {
			fmt.Fprintf(&rules, "      - {record: panel:%d, expr: '%s'}\n", i, variables.Replace(e))
		}
		for name, content := range map[string]string{
			"alerts.yml": string(alerts), "alerts_test.yml": string(test), "panels.yml": rules.String(),
		} {
			check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		for _, args := range [][]string{
			{"check", "rules", "alerts.yml", "panels.yml"}, {"test", "rules", "alerts_test.yml"},
		} {
			c := exec.Command("promtool", args...)
			c.Dir = dir
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("promtool %v: %v\n%s", args, err, out)
			}
		}
	})
}
