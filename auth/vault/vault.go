// Package vault encrypts secrets in the database that the service needs in plain text.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// Vault encrypts secrets with AES-256-GCM: the first key encrypts, and all keys decrypt. Each key is derived from a
// configured secret, so that the database alone does not reveal the secrets.
type Vault []cipher.AEAD

// New returns the Vault of the configured secrets. Different purposes have different keys.
func New(configured []string, purpose string) (v Vault) {
	for _, secret := range configured {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, purpose, 32)
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
		v = append(v, aead)
	}
	return v
}

// sealed is the first byte of an encrypted secret. The nonce and the ciphertext follow.
const sealed = 1

// Seal encrypts a secret, which can be decrypted only with the same owner.
func (v Vault) Seal(owner string, secret []byte) []byte {
	text := make([]byte, 1+v[0].NonceSize())
	text[0] = sealed
	rand.Read(text[1:])
	return v[0].Seal(text, text[1:], secret, []byte(owner))
}

// ErrUndecryptable means that no configured secret decrypts a secret.
var ErrUndecryptable = errors.New("no configured JWT_SECRET decrypts the secret")

// Open decrypts what Seal has returned for the owner. It also returns the index of the key that encrypted it: if that
// is not 0, the secret should be sealed again.
func (v Vault) Open(owner string, text []byte) (secret []byte, key int, err error) {
	for i, aead := range v {
		n := 1 + aead.NonceSize()
		if len(text) < n || text[0] != sealed {
			break
		}
		if secret, err = aead.Open(nil, text[1:n], text[n:], []byte(owner)); err == nil {
			return secret, i, nil
		}
	}
	return nil, 0, ErrUndecryptable
}
