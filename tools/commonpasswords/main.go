// Commonpasswords makes the set of common passwords that the program carries. Its input is a list of passwords, the
// most common first, one a line. It takes the first passwords that are long enough for the service, each once in its
// compared form. Run it in the root of the checkout; docs/users.md names the list:
//
//	go run ./tools/commonpasswords LIST
//
// The same list gives the same file, auth/common/passwords.hashes. It exits with status 1 if the list has too few
// passwords.
package main

import (
	"bufio"
	"fmt"
	"os"
	"unicode/utf8"

	"spoolwright/auth/common"
	"spoolwright/auth/secrets"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/commonpasswords LIST")
		os.Exit(2)
	}
	set, err := read(os.Args[1])
	if err == nil {
		err = os.WriteFile("auth/common/passwords.hashes", set, 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "commonpasswords: %v\n", err)
		os.Exit(1)
	}
}

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var chosen []string
	known := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(chosen) < common.Size {
		p := common.Normal(lines.Text())
		if utf8.RuneCountInString(p) >= secrets.MinPassword && !known[p] {
			known[p] = true
			chosen = append(chosen, p)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(chosen) < common.Size {
		return nil, fmt.Errorf("%s has only %d different passwords of at least %d characters", file, len(chosen),
			secrets.MinPassword)
	}
	return common.Encode(chosen), nil
}
