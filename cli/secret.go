package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// StoredSecret returns the secret in a file. It creates the file with a random secret if it does not exist.
func StoredSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + rand.Text())
		return string(b), WriteSecret(path, b)
	}
	if err == nil && len(b) < 32 {
		err = fmt.Errorf("%s is damaged: remove it (all users must then log in again)", path)
	}
	return string(b), err
}

// WriteSecret atomically writes a file that only the program's account may read.
func WriteSecret(path string, b []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
