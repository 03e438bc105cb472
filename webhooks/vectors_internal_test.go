package webhooks

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSignatures checks the signatures in testdata/webhooks.json. The tests of the client libraries verify the same
// requests.
func TestSignatures(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../testdata/webhooks.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Body string
		Valid      bool
		Secrets    []string
		Headers    map[string]string
	}
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	valid := 0
	for _, v := range vectors {
		if !v.Valid {
			continue
		}
		valid++
		timestamp, err := strconv.ParseInt(v.Headers["webhook-timestamp"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var made []string
		for _, encoded := range v.Secrets {
			secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(encoded, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, signature(secret, v.Headers["webhook-id"], timestamp, []byte(v.Body)))
		}
		sent := strings.Fields(v.Headers["webhook-signature"])
		if !slices.ContainsFunc(made, func(s string) bool { return slices.Contains(sent, s) }) {
			t.Errorf("%s: the signatures are %q, want one of %q", v.Name, made, sent)
		}
	}
	if valid == 0 {
		t.Error("no vector is valid")
	}
}
