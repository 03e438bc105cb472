//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
)

func openTerminal() (control, terminal *os.File, err error) {
	return nil, nil, errors.New("these tests open one on Linux only")
}

func onItsTerminal() *syscall.SysProcAttr { return nil }
