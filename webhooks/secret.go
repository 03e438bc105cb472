package webhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"

	"spoolwright/auth/vault"
)

// secretBytes is the length of the secret with which a webhook's events are signed.
const secretBytes = 32

func newSecret() []byte {
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	return secret
}

// encodeSecret returns the form in which users see a secret.
func encodeSecret(secret []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(secret) }

// signature returns a signature as specified by Standard Webhooks, for the header webhook-signature.
func signature(secret []byte, id string, timestamp int64, body []byte) string {
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte(id + "." + strconv.FormatInt(timestamp, 10) + "."))
	sum.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// keys encrypt the secrets of webhooks in the database: the first key encrypts, and all keys decrypt.
type keys struct{ vault.Vault }

func newKeys(configured []string) keys {
	return keys{vault.New(configured, "spoolwright: secrets of webhooks")}
}

// owner returns the owner of an encrypted secret, so that the secret can be decrypted only for its webhook.
func owner(tenant, webhook string) string { return tenant + " " + webhook }

func (k keys) seal(tenant, webhook string, secret []byte) []byte {
	return k.Seal(owner(tenant, webhook), secret)
}

var errUndecryptable = errors.New("no configured JWT_SECRET decrypts the secret of the webhook; rotate the secret")

// open decrypts the secret of a webhook and returns the index of the key that encrypted it.
func (k keys) open(tenant, webhook string, text []byte) (secret []byte, key int, err error) {
	if secret, key, err = k.Open(owner(tenant, webhook), text); err != nil {
		err = errUndecryptable
	}
	return secret, key, err
}
