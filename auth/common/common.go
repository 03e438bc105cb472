// Package common recognizes common passwords: those that attackers try first, because many people chose them.
package common

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
	"strings"
)

// Size is the number of common passwords in the program.
const Size = 100_000

// The most common passwords with at least 10 characters in a list of breached passwords. The command
// ./tools/commonpasswords writes the file, and docs/users.md names the list.
//
//go:embed passwords.hashes
var passwords string

// Contains reports whether a password is common, ignoring case and blanks at both ends. It returns true for all common
// passwords, and for about 8 of a million others.
func Contains(password string) bool { return contains(passwords, password) }

// A set has the last 3 bytes of the hash of each password, in ascending order of the hashes. Hashes with the same
// upper bits form a block. The set begins with the number of hashes up to the end of each block, in 4 bytes.
const (
	hashes    = 390 << 25 // one of 131,000 other passwords has the hash of one of the 100,000 passwords of a set
	blockBits = 24
	blocks    = hashes >> blockBits
	width     = blockBits / 8
)

func contains(set, password string) bool {
	block, want := hash(password)
	count := func(block int) int {
		if block < 0 {
			return 0
		}
		return int(binary.BigEndian.Uint32([]byte(set[4*block:][:4])))
	}
	values := set[4*blocks:]
	first, n := count(block-1), count(block)-count(block-1)
	_, found := sort.Find(n, func(i int) int { return strings.Compare(want, values[width*(first+i):][:width]) })
	return found
}

// Encode returns the set of the passwords.
func Encode(passwords []string) []byte {
	var members [blocks][]string
	for _, p := range passwords {
		block, value := hash(p)
		members[block] = append(members[block], value)
	}
	var index, values []byte
	for _, block := range members {
		slices.Sort(block)
		values = append(values, strings.Join(block, "")...)
		index = binary.BigEndian.AppendUint32(index, uint32(len(values)/width))
	}
	return append(index, values...)
}

// hash returns the block of the hash of a password, and its last bytes.
func hash(password string) (block int, value string) {
	sum := sha256.Sum256([]byte(Normal(password)))
	h, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), hashes)
	return int(h >> blockBits), string(binary.BigEndian.AppendUint64(nil, h)[8-width:])
}

// Normal returns the form of a password by which passwords are compared.
func Normal(password string) string { return strings.ToLower(strings.TrimSpace(password)) }
