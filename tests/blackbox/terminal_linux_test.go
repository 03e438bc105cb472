package blackbox_test

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// openTerminal creates a pseudo-terminal. The program under test uses terminal; the test reads what the program
// prints, and types, through control.
func openTerminal() (control, terminal *os.File, err error) {
	control, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number, unlocked uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		// Not control.Fd(): it would make the file blocking, and Close would then wait for a pending Read.
		raw, err := control.SyscallConn()
		var errno syscall.Errno
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(value)))
			})
		}
		if err == nil && errno != 0 {
			err = errno
		}
		if err != nil {
			control.Close()
			return nil, nil, err
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		control.Close()
	}
	return control, terminal, err
}

// controllingTerminal makes the standard input of a new process its controlling terminal, so that Ctrl-C interrupts
// it.
func controllingTerminal() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: true}
}
