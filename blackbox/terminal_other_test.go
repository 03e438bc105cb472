//go:build !linux

package blackbox_test

import (
	"errors"
	"os"
	"syscall"
)

func openTerminal() (control, terminal *os.File, err error) {
	return nil, nil, errors.New("these tests open one on Linux only")
}

func onItsTerminal() *syscall.SysProcAttr { return nil }
