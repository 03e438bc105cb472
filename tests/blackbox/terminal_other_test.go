//go:build !linux

package blackbox_test

import (
	"errors"
	"os"
	"syscall"
)

func openTerminal() (control, terminal *os.File, err error) {
	return nil, nil, errors.New("pseudo-terminals are implemented for Linux only")
}

func controllingTerminal() *syscall.SysProcAttr { return nil }
