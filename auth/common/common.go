// Package common tells which passwords are common: those that attackers try first, because people chose them often.
package common

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"strings"
)

// Size is the number of common passwords in the program.
const Size = 100_000

// The most common passwords of a list of breached passwords that have at least 10 characters. The command
// ./tools/commonpasswords writes the file, and docs/users.md names the list.
//
//go:embed passwords.rice
var passwords string

// Contains reports whether a password is common. Upper and lower case are the same, and blanks at the start and the
// end do not count. It reports true for all common passwords, and for about 8 of a million others.
func Contains(password string) bool { return contains(passwords, password) }

// A set consists of groups, so that a look-up reads only one of them. The first byte of a password's hash names its
// group. The set begins with the offset of each group in 32 bits. A group begins with the number of its passwords in
// 16 bits. The values of the passwords follow in ascending order, as a Rice code: for each value, the difference from
// the previous one, divided by 2^17, as that many 1 bits and a 0 bit; then the remainder as 17 bits.
const (
	groups        = 256
	remainderBits = 17 // one of 2^17 other passwords has the value of a password of the set
)

func contains(set, password string) bool {
	group, want := hash(password)
	for value := range values(set, group) {
		if value >= want {
			return value == want
		}
	}
	return false
}

// values returns the values of a group in ascending order.
func values(set string, group int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		start := binary.BigEndian.Uint32([]byte(set[4*group:]))
		r := reader{data: set[start:]}
		value := uint64(0)
		for range r.read(16) {
			if value += r.difference(); !yield(value) {
				return
			}
		}
	}
}

// Encode returns the set of the passwords.
func Encode(passwords []string) []byte {
	var members [groups][]uint64
	for _, p := range passwords {
		group, value := hash(p)
		members[group] = append(members[group], value)
	}
	set := make([]byte, 4*groups)
	for group, values := range members {
		binary.BigEndian.PutUint32(set[4*group:], uint32(len(set)))
		slices.Sort(values)
		w := writer{data: binary.BigEndian.AppendUint16(set, uint16(len(values)))}
		previous := uint64(0)
		for _, value := range values {
			w.difference(value - previous)
			previous = value
		}
		set = append(w.data, byte(w.bits<<(8-w.count)))
	}
	return set
}

// hash returns the group and the value of a password.
func hash(password string) (group int, value uint64) {
	sum := sha256.Sum256([]byte(Normal(password)))
	value, _ = bits.Mul64(binary.BigEndian.Uint64(sum[1:]), Size/groups<<remainderBits)
	return int(sum[0]), value
}

// Normal returns the compared form of a password.
func Normal(password string) string { return strings.ToLower(strings.TrimSpace(password)) }

// reader reads the bits of a set, from the highest of each byte.
type reader struct {
	data  string
	next  int // the index of the next byte
	bits  uint64
	count int // of the unread bits, the lowest in bits
}

func (r *reader) difference() (d uint64) {
	for r.read(1) == 1 {
		d++
	}
	return d<<remainderBits | r.read(remainderBits)
}

func (r *reader) read(n int) uint64 {
	for r.count < n {
		r.bits = r.bits<<8 | uint64(r.data[r.next])
		r.next++
		r.count += 8
	}
	r.count -= n
	return r.bits >> r.count & (1<<n - 1)
}

// writer appends bits to a set; count bits, the lowest in bits, are not in data yet.
type writer struct {
	data  []byte
	bits  uint64
	count int
}

func (w *writer) difference(d uint64) {
	for range d >> remainderBits {
		w.write(1, 1)
	}
	w.write(0, 1)
	w.write(d&(1<<remainderBits-1), remainderBits)
}

func (w *writer) write(value uint64, n int) {
	w.bits = w.bits<<n | value
	for w.count += n; w.count >= 8; {
		w.count -= 8
		w.data = append(w.data, byte(w.bits>>w.count))
	}
}
