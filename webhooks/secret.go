package webhooks

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
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

// keys encrypt the secrets of webhooks in the database: the first key encrypts, and all keys decrypt. Each key is
// derived from a configured secret, so that the database alone does not reveal the secrets of webhooks.
type keys []cipher.AEAD

// sealed is the first byte of an encrypted secret. The nonce and the ciphertext of AES-256-GCM follow.
const sealed = 1

func newKeys(configured []string) (all keys) {
	for _, secret := range configured {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "spoolwright: secrets of webhooks", 32)
		if err != nil {
			panic(err) // only if the length is too large
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			panic(err) // only for other lengths
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			panic(err)
		}
		all = append(all, aead)
	}
	return all
}

// binding returns data that is authenticated with an encrypted secret, so that the secret can be decrypted only for
// its webhook.
func binding(tenant, webhook string) []byte { return []byte(tenant + " " + webhook) }

// seal encrypts the secret of a webhook.
func (k keys) seal(tenant, webhook string, secret []byte) []byte {
	text := make([]byte, 1+k[0].NonceSize())
	text[0] = sealed
	rand.Read(text[1:])
	return k[0].Seal(text, text[1:], secret, binding(tenant, webhook))
}

var errUndecryptable = errors.New("no configured JWT_SECRET decrypts the secret of the webhook; rotate the secret")

// open decrypts the secret of a webhook and returns the index of the key that encrypted it.
func (k keys) open(tenant, webhook string, text []byte) (secret []byte, key int, err error) {
	for i, aead := range k {
		n := 1 + aead.NonceSize()
		if len(text) < n || text[0] != sealed {
			break
		}
		if secret, err = aead.Open(nil, text[1:n], text[n:], binding(tenant, webhook)); err == nil {
			return secret, i, nil
		}
	}
	return nil, 0, errUndecryptable
}
