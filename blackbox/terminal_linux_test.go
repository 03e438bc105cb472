package blackbox_test

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// openTerminal returns the two ends of a new pseudo-terminal: the one a person would hold, and the program's.
func openTerminal() (control, terminal *os.File, err error) {
	control, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number, unlocked uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			control.Close()
			return nil, nil, errno
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		control.Close()
	}
	return control, terminal, err
}

// onItsTerminal makes a child's standard input its controlling terminal, so that Ctrl-C reaches it.
func onItsTerminal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true, Setctty: true} }
