package blackbox_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// Callers do not write their clients by hand. These tests generate two from the document that the service serves, compile
// them, and let them work against the service; the scripts that use them are in testdata/clients. The tools:
//
//	CLIENT_TOOLS   a folder into which npm has installed @redocly/cli, openapi-typescript, openapi-fetch and typescript
//	OAPI_CODEGEN   the program oapi-codegen, if it is not in PATH
//
// .ci/run installs them. They are no part of this module.

func testClients(t *testing.T, p program) {
	c, _ := startWithAdmin(t, p)
	document, err := c.client.Get(c.url + "/openapi.json")
	check(t, err)
	defer document.Body.Close()
	b, err := io.ReadAll(document.Body)
	check(t, err)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, dir string) []byte
	}{{"Lint", lint}, {"TypeScript", typeScriptClient(c)}, {"Go", goClient(c)}} {
		t.Run(test.name, func(t *testing.T) {
			dir := tempDir(t)
			check(t, os.WriteFile(filepath.Join(dir, "openapi.json"), b, 0o600))
			out := test.run(t, dir)
			if test.name == "Lint" {
				return
			}
			var got any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want := map[string]any{"listed": true, "cost_per_gram": 0.02999, "left": 954.5, "refused": "INSUFFICIENT_FILAMENT",
				"deducted": []any{155.25}, "status": "completed", "variance": 5.25, "rating": nil}
			if !reflect.DeepEqual(got, any(want)) {
				t.Errorf("the script shows\n%s\nwant\n%v", out, want)
			}
		})
	}
	c.stop(t, syscall.SIGTERM)
}

// nodeTool is the command line of a tool that npm has installed.
func nodeTool(t *testing.T, name string) []string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		skipTest(t, "node is not installed")
	}
	path := filepath.Join(os.Getenv("CLIENT_TOOLS"), "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		skipTest(t, "CLIENT_TOOLS names no folder with "+name)
	}
	return []string{"node", path}
}

// runIn runs a command in a folder and returns what it prints.
func runIn(t *testing.T, dir string, env []string, command ...string) []byte {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, &complaints)
	}
	return out
}

// lint wants neither an error nor a warning of Redocly's recommended rules.
func lint(t *testing.T, dir string) []byte {
	out := runIn(t, dir, []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"},
		append(nodeTool(t, "redocly"), "lint", "--extends=recommended", "--format=json", "openapi.json")...)
	var found struct {
		Totals struct{ Errors, Warnings, Ignored int }
	}
	if err := json.Unmarshal(out, &found); err != nil || found.Totals.Errors+found.Totals.Warnings+found.Totals.Ignored > 0 || !strings.Contains(string(out), `"totals"`) {
		t.Errorf("%v: %s", err, out)
	}
	return nil
}

func (c *process) clientEnv() []string {
	return []string{"FARM_URL=" + c.url, "FARM_EMAIL=ada@farm.example", "FARM_PASSWORD=a password for tests"}
}

// typeScript generates types with openapi-typescript, and compiles a script for openapi-fetch with tsc --strict.
func typeScriptClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		generate, compile := nodeTool(t, "openapi-typescript"), nodeTool(t, "tsc")
		check(t, os.Symlink(filepath.Join(os.Getenv("CLIENT_TOOLS"), "node_modules"), filepath.Join(dir, "node_modules")))
		check(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
		check(t, os.WriteFile(filepath.Join(dir, "node.d.ts"), []byte("declare const process: { env: Record<string, string | undefined> };\n"), 0o600))
		copyFile(t, "testdata/clients/main.ts", filepath.Join(dir, "main.ts"))
		runIn(t, dir, nil, append(generate, "openapi.json", "--output", "api.ts")...)
		runIn(t, dir, nil, append(compile, "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "main.ts", "node.d.ts")...)
		return runIn(t, dir, c.clientEnv(), "node", "main.js")
	}
}

// goClient generates a client with oapi-codegen.
func goClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		generator := os.Getenv("OAPI_CODEGEN")
		if generator == "" {
			var err error
			if generator, err = exec.LookPath("oapi-codegen"); err != nil {
				skipTest(t, "oapi-codegen is not installed, and OAPI_CODEGEN does not name it")
			}
		}
		check(t, os.Mkdir(filepath.Join(dir, "api"), 0o700))
		copyFile(t, "testdata/clients/main.go", filepath.Join(dir, "main.go"))
		check(t, os.WriteFile(filepath.Join(dir, "go.mod"), fmt.Appendf(nil, "module farm\n\ngo 1.26\n\nrequire github.com/oapi-codegen/runtime %s\n", runtimeVersion), 0o600))
		env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
		runIn(t, dir, nil, generator, "-generate", "types,client", "-package", "api", "-o", filepath.Join("api", "api.go"), "openapi.json")
		runIn(t, dir, env, "go", "mod", "tidy")
		runIn(t, dir, env, "go", "vet", "./...")
		return runIn(t, dir, append(env, c.clientEnv()...), "go", "run", ".")
	}
}

// runtimeVersion is that of the library which clients made by oapi-codegen use.
const runtimeVersion = "v1.8.0"

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, b, 0o600))
}
