package blackbox_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"spoolwright/tests/testkit"
)

// testClients lints the OpenAPI document that the service serves, generates TypeScript, Go and Python clients from it,
// compiles them together with the scripts in testdata/clients, and runs the scripts against the service. It needs
// tools that .ci/run installs:
//
//	CLIENT_TOOLS       directory with the npm packages @redocly/cli, openapi-typescript, openapi-fetch and typescript
//	OAPI_CODEGEN       the program oapi-codegen, if it is not in PATH
//	PYTHON_CLIENTS     virtual environment with openapi-python-client and the packages that Python clients import
//	OPENAPI_GENERATOR  openapi-generator-cli.jar, which needs java
func testClients(t *testing.T, p program) {
	testkit.Rig(t)
	c, _ := startWithAdmin(t, p)
	document, err := c.client.Get(c.url + "/openapi.json")
	check(t, err)
	defer document.Body.Close()
	b, err := io.ReadAll(document.Body)
	check(t, err)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, dir string) []byte
	}{{"Lint", lintDocument}, {"TypeScript", typeScriptClient(c)}, {"Go", goClient(c)},
		{"Python", pythonClient(c)}, {"GeneratorGo", generatorGoClient(c)},
		{"GeneratorPython", generatorPythonClient(c)}} {
		t.Run(test.name, func(t *testing.T) {
			dir := tempDir(t)
			check(t, os.WriteFile(filepath.Join(dir, "openapi.json"), b, 0o600))
			out := test.run(t, dir)
			if test.name == "Lint" {
				return
			}
			wantPrinted(t, out, map[string]any{
				"listed": true, "cost_per_gram": 0.02999, "left": 954.5, "refused": "INSUFFICIENT_FILAMENT",
				"deducted": []any{155.25}, "status": "completed", "variance": 5.25, "rating": nil,
			})
		})
	}
	c.stop(t, syscall.SIGTERM)
}

// wantPrinted compares the JSON that a script printed.
func wantPrinted(t *testing.T, out []byte, want any) {
	t.Helper()
	var got any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the script prints\n%s\nwant\n%v", out, want)
	}
}

// nodeTool returns the command that runs a tool in CLIENT_TOOLS.
func nodeTool(t *testing.T, name string) []string {
	t.Helper()
	needTools(t, "node")
	path := filepath.Join(os.Getenv("CLIENT_TOOLS"), "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		skipTest(t, "CLIENT_TOOLS is not a directory with "+name)
	}
	return []string{"node", path}
}

// runIn runs a command in a directory and returns what it prints to stdout.
func runIn(t *testing.T, dir string, env []string, command ...string) []byte {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, &stderr)
	}
	return out
}

// lintDocument requires that Redocly's recommended rules report neither an error nor a warning. One rule is left out:
// /spools/by-number/{number} is no other path with an id, because ids are UUIDs.
func lintDocument(t *testing.T, dir string) []byte {
	out := runIn(t, dir, []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"},
		append(nodeTool(t, "redocly"), "lint", "--extends=recommended", "--format=json",
			"--skip-rule=no-ambiguous-paths", "openapi.json")...)
	var found struct {
		Totals struct{ Errors, Warnings, Ignored int }
	}
	err := json.Unmarshal(out, &found)
	problems := found.Totals.Errors + found.Totals.Warnings + found.Totals.Ignored
	if err != nil || problems > 0 || !strings.Contains(string(out), `"totals"`) {
		t.Errorf("%v: %s", err, out)
	}
	return nil
}

// clientEnv returns the environment variables that the scripts in testdata/clients read.
func (c *process) clientEnv() []string {
	return []string{"FARM_URL=" + c.url, "FARM_EMAIL=ada@farm.example", "FARM_PASSWORD=a password for tests"}
}

// typeScriptClient generates types with openapi-typescript, and compiles a script for openapi-fetch with tsc
// --strict.
func typeScriptClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		generate, compile := nodeTool(t, "openapi-typescript"), nodeTool(t, "tsc")
		check(t, os.Symlink(filepath.Join(os.Getenv("CLIENT_TOOLS"), "node_modules"),
			filepath.Join(dir, "node_modules")))
		check(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
		const nodeTypes = "declare const process: { env: Record<string, string | undefined> };\n"
		check(t, os.WriteFile(filepath.Join(dir, "node.d.ts"), []byte(nodeTypes), 0o600))
		copyFile(t, "testdata/clients/main.ts", filepath.Join(dir, "main.ts"))
		runIn(t, dir, nil, append(generate, "openapi.json", "--output", "api.ts")...)
		runIn(t, dir, nil, append(compile, strictTypeScript("main.ts", "node.d.ts")...)...)
		return runIn(t, dir, c.clientEnv(), "node", "main.js")
	}
}

// goClient generates a client with oapi-codegen, and compiles and runs a program that uses it.
func goClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		generator := os.Getenv("OAPI_CODEGEN")
		if generator == "" {
			var err error
			if generator, err = exec.LookPath("oapi-codegen"); err != nil {
				skipTest(t, "oapi-codegen is not installed, and OAPI_CODEGEN is not set")
			}
		}
		check(t, os.Mkdir(filepath.Join(dir, "api"), 0o700))
		copyFile(t, "testdata/clients/main.go", filepath.Join(dir, "main.go"))
		const module = "module farm\n\ngo 1.26\n\nrequire github.com/oapi-codegen/runtime " + runtimeVersion + "\n"
		check(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600))
		env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
		runIn(t, dir, nil, generator, "-generate", "types,client", "-package", "api",
			"-o", filepath.Join("api", "api.go"), "openapi.json")
		runIn(t, dir, env, "go", "mod", "tidy")
		runIn(t, dir, env, "go", "vet", "./...")
		return runIn(t, dir, append(env, c.clientEnv()...), "go", "run", ".")
	}
}

// python returns the interpreter of PYTHON_CLIENTS.
func python(t *testing.T) string { t.Helper(); return pythonIn(t, "PYTHON_CLIENTS") }

// pythonIn returns the interpreter of the virtual environment that a variable names.
func pythonIn(t *testing.T, variable string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(variable), "bin", "python")
	if _, err := os.Stat(path); err != nil {
		skipTest(t, variable+" is not a virtual environment")
	}
	return path
}

// pythonClient generates a client with openapi-python-client, and runs a script that uses it.
func pythonClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		python := python(t)
		generator := filepath.Join(filepath.Dir(python), "openapi-python-client")
		runIn(t, dir, nil, generator, "generate", "--path", "openapi.json", "--meta", "none", "--output-path", "farm")
		return runIn(t, dir, append(c.clientEnv(), "PYTHONPATH="+dir), python,
			absolutePath(t, "testdata/clients/generated_attrs.py"))
	}
}

// openAPIGenerator generates a client with openapi-generator into a directory.
func openAPIGenerator(t *testing.T, dir, language, out, properties string, options ...string) {
	t.Helper()
	jar := os.Getenv("OPENAPI_GENERATOR")
	if _, err := exec.LookPath("java"); err != nil || jar == "" {
		skipTest(t, "java is not installed, or OPENAPI_GENERATOR is not set")
	}
	runIn(t, dir, nil, append([]string{"java", "-jar", jar, "generate", "--input-spec", "openapi.json",
		"--generator-name",
		language, "--output", out, "--additional-properties", properties}, options...)...)
}

// generatorPythonClient generates a Python client with openapi-generator, and runs a script that uses it. It removes
// the webhooks from the document first, as docs/clients.md says: the generator writes invalid Python for them.
func generatorPythonClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		python := python(t)
		path := filepath.Join(dir, "openapi.json")
		b, err := os.ReadFile(path)
		check(t, err)
		var document map[string]json.RawMessage
		check(t, json.Unmarshal(b, &document))
		delete(document, "webhooks")
		b, err = json.Marshal(document)
		check(t, err)
		check(t, os.WriteFile(path, b, 0o600))
		openAPIGenerator(t, dir, "python", "client", "packageName=farm")
		return runIn(t, dir, append(c.clientEnv(), "PYTHONPATH="+filepath.Join(dir, "client")), python,
			absolutePath(t, "testdata/clients/generated_pydantic.py"))
	}
}

// generatorGoClient generates a Go client with openapi-generator, and compiles and runs a program that uses it.
func generatorGoClient(c *process) func(*testing.T, string) []byte {
	return func(t *testing.T, dir string) []byte {
		openAPIGenerator(t, dir, "go", "api", "packageName=api,withGoMod=false,enumClassPrefix=true", "--git-host",
			"farm.example",
			"--git-user-id", "farm", "--git-repo-id", "api", "--global-property",
			"models,apis,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false")
		copyFile(t, "testdata/clients/openapi-generator/main.go", filepath.Join(dir, "main.go"))
		check(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module farm.example/farm\n\ngo 1.26\n"), 0o600))
		env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
		runIn(t, dir, env, "go", "mod", "tidy")
		runIn(t, dir, env, "go", "vet", ".")
		return runIn(t, dir, append(env, c.clientEnv()...), "go", "run", ".")
	}
}

// runtimeVersion is the version of the library that clients generated by oapi-codegen import.
const runtimeVersion = "v1.8.0"

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, b, 0o600))
}
