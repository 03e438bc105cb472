package secrets

import (
	"regexp"
	"strings"
	"testing"
)

// A secret has the documented form, and its checksum detects changed, missing and swapped characters.
func TestKeySecret(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^swk_[0-9A-Za-z]{36}$`)
	seen := map[string]bool{}
	for range 1000 {
		secret := NewKey()
		if !form.MatchString(secret) || !IsKey(secret) || seen[secret] {
			t.Fatalf("%q", secret)
		}
		seen[secret] = true
	}
	if !IsKey("swk_Ab3dExampleOnlyNotASecret000001Z1S9s") { // computed with another program
		t.Error("the checksum is not the CRC-32 of the prefix and the random characters")
	}
	secret := NewKey()
	for i := range len(secret) {
		for _, c := range "0Zz_-é \n" {
			if changed := secret[:i] + string(c) + secret[i+1:]; changed != secret && IsKey(changed) {
				t.Errorf("%q is accepted, the secret is %q", changed, secret)
			}
		}
		if IsKey(secret[:i]) || IsKey(secret[i:]+secret[:i]) && i > 0 ||
			IsKey(secret[:i]+secret[i+1:]) {
			t.Errorf("a part of %q is accepted", secret)
		}
	}
	for _, other := range []string{"", secret + "0", " " + secret, strings.ToUpper(secret), "SWK_" + secret[4:]} {
		if IsKey(other) {
			t.Errorf("%q is accepted", other)
		}
	}
}
