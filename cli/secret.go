package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"spoolwright/db/local"
)

// StoredSecret returns the secret in a private file. It creates the file with a random secret if it does not exist.
func StoredSecret(path string) (string, error) {
	b, err := local.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + rand.Text())
		return string(b), local.WritePrivate(path, b)
	}
	if err == nil && len(b) < 32 {
		err = fmt.Errorf("%s is damaged: remove it (all users must then log in again)", path)
	}
	return string(b), err
}
