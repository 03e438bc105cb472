package blackbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

const loopbackWebhooks = "WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8"

// newWebhook creates a webhook and returns its path and secret.
func newWebhook(t *testing.T, c *process, token, url string) (path, secret string) {
	t.Helper()
	hook := c.create(t, token, "/api/v1/webhooks",
		map[string]any{"url": url, "events": []string{"order.received", "production_run.completed"}})
	return "/api/v1/webhooks/" + hook["id"].(string), hook["secret"].(string)
}

// testWebhook sends a test event and waits for its delivery.
func testWebhook(t *testing.T, c *process, token, path string) {
	t.Helper()
	delivery := c.create(t, token, path+"/test", nil)
	eventually(t, "the event is delivered", func() bool {
		status, now := c.call(t, token, "GET", path+"/deliveries/"+delivery["id"].(string), nil)
		if tries, _ := now["tries"].(float64); status != 200 || tries > 1 {
			t.Fatalf("the delivery is %d %v", status, now)
		}
		return now["status"] == "delivered"
	})
}

// TestWebhookReceivers runs the receivers in docs/webhooks.md as they stand.
func TestWebhookReceivers(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	c, token := startWithAdmin(t, buildProgram(t), append([]string{loopbackWebhooks}, noLimits...)...)
	for _, r := range []struct {
		language, has, file string
		command             []string
	}{
		{"python", "BaseHTTPRequestHandler", "receiver.py", []string{"python3", "receiver.py"}},
		{"js", "createHmac", "receiver.mjs", []string{"node", "receiver.mjs"}},
		{"go", "hmac.New", "receiver.go", []string{"go", "build", "-o", "receiver", "receiver.go"}},
	} {
		t.Run(r.language, func(t *testing.T) {
			needTools(t, r.command[0])
			dir := tempDir(t)
			check(t, os.WriteFile(filepath.Join(dir, r.file), []byte(block(t, r.language, r.has)), 0o600))
			command := r.command
			if r.language == "go" {
				runIn(t, dir, nil, command...)
				command = []string{filepath.Join(dir, "receiver")}
			}
			port := freePorts(t, "127.0.0.1", 1)[0]
			path, secret := newWebhook(t, c, token, "http://127.0.0.1:"+port)
			var out, complaints testkit.Log
			process := exec.Command(command[0], command[1:]...)
			process.Dir, process.Stdout, process.Stderr = dir, &out, &complaints
			process.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "PORT="+port)
			check(t, process.Start())
			t.Cleanup(func() { process.Process.Kill(); process.Wait() })
			eventually(t, "the receiver listens", func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					c.Close()
				}
				return err == nil
			})
			testWebhook(t, c, token, path)
			// Requests without a valid signature, and old ones.
			for _, sent := range []string{"", "1", fmt.Sprint(time.Now().Unix())} {
				request, err := http.NewRequest("POST", "http://127.0.0.1:"+port,
					strings.NewReader(`{"type":"forged"}`))
				check(t, err)
				if sent != "" {
					request.Header.Set("webhook-id", "msg_1")
					request.Header.Set("webhook-timestamp", sent)
					request.Header.Set("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=")
				}
				response, err := http.DefaultClient.Do(request)
				if err == nil {
					response.Body.Close()
				}
				if err == nil && response.StatusCode < 300 {
					t.Errorf("the receiver accepts a forged event with the timestamp %q", sent)
				}
			}
			testWebhook(t, c, token, path)
			if got := strings.Fields(out.String()); len(got) != 2 || got[0] != "webhook.test" ||
				got[1] != "webhook.test" {
				t.Errorf("the receiver prints %q and %s", got, complaints.String())
			}
		})
	}
	c.stop(t, syscall.SIGTERM)
}

// TestWebhookLibraries verifies requests of the service with the libraries of Standard Webhooks, which .ci/run
// installs:
//
//	WEBHOOK_LIBRARIES  directory with the npm package standardwebhooks, and with a Python environment in python
func TestWebhookLibraries(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	requests := make(chan []byte, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		headers := map[string]string{}
		for name := range r.Header {
			headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		request, err2 := json.Marshal(map[string]any{"body": string(body), "headers": headers})
		if err != nil || err2 != nil {
			t.Error(err, err2)
		}
		requests <- request
	}))
	t.Cleanup(receiver.Close)
	c, token := startWithAdmin(t, buildProgram(t), append([]string{loopbackWebhooks}, noLimits...)...)
	path, first := newWebhook(t, c, token, receiver.URL)
	testWebhook(t, c, token, path)
	withSecret := func(secret string, request []byte) []byte {
		return fmt.Appendf(nil, `{"secret":"%s",%s`, secret, request[1:])
	}
	all := [][]byte{withSecret(first, <-requests)}
	rotated := c.create(t, token, path+"/rotate", nil)
	testWebhook(t, c, token, path)
	signedTwice := <-requests
	all = append(all, withSecret(first, signedTwice), withSecret(rotated["secret"].(string), signedTwice))
	c.stop(t, syscall.SIGTERM)

	libraries := os.Getenv("WEBHOOK_LIBRARIES")
	for name, prepare := range map[string]func(t *testing.T) (dir string, command []string){
		"Python": func(t *testing.T) (string, []string) {
			python := filepath.Join(libraries, "python", "bin", "python")
			if _, err := os.Stat(python); err != nil || libraries == "" {
				skipTest(t, "WEBHOOK_LIBRARIES has no Python environment")
			}
			return ".", []string{python, "testdata/webhooks/verify.py"}
		},
		"Node": func(t *testing.T) (string, []string) {
			if _, err := os.Stat(filepath.Join(libraries, "node_modules", "standardwebhooks")); err != nil ||
				libraries == "" {
				skipTest(t, "WEBHOOK_LIBRARIES lacks the npm package standardwebhooks")
			}
			return ".", []string{"node", "testdata/webhooks/verify.mjs"}
		},
		"Go": func(t *testing.T) (string, []string) {
			if libraries == "" {
				skipTest(t, "WEBHOOK_LIBRARIES is not set")
			}
			dir := tempDir(t)
			copyFile(t, "testdata/webhooks/verify/main.go", filepath.Join(dir, "main.go"))
			const module = "module verify\n\ngo 1.26\n\nrequire " +
				"github.com/standard-webhooks/standard-webhooks/libraries v0.0.1\n"
			check(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600))
			env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
			runIn(t, dir, env, "go", "mod", "download", "all")
			runIn(t, dir, env, "go", "build", "-o", "verify", "main.go")
			return dir, []string{filepath.Join(dir, "verify")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, command := prepare(t)
			for _, request := range all {
				verify := exec.Command(command[0], command[1:]...)
				verify.Dir, verify.Stdin = dir, bytes.NewReader(request)
				out, err := verify.CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != "webhook.test" {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
}
