package slicer

import "io"

// heatshrink decompresses data of the heatshrink algorithm: a 1 and eight bits are a byte; a 0, window bits and
// lookahead bits are a reference to earlier bytes. Each number is stored minus one. The result has at most size bytes.
func heatshrink(data []byte, window, lookahead uint, size int) ([]byte, error) {
	out := make([]byte, 0, min(size, 1<<16))
	var bits uint64
	var have uint
	pos := 0
	take := func(n uint) (uint64, bool) {
		for have < n {
			if pos == len(data) {
				return 0, false
			}
			bits = bits<<8 | uint64(data[pos])
			pos++
			have += 8
		}
		have -= n
		return bits >> have & (1<<n - 1), true
	}
	for len(out) < size {
		literal, ok := take(1)
		if !ok {
			break
		}
		if literal == 1 {
			c, ok := take(8)
			if !ok {
				break
			}
			out = append(out, byte(c))
			continue
		}
		back, ok1 := take(window)
		count, ok2 := take(lookahead)
		if !ok1 || !ok2 {
			break
		}
		from := len(out) - int(back) - 1
		for range min(int(count)+1, size-len(out)) {
			var c byte // before the beginning, the window has zeros
			if from >= 0 {
				c = out[from]
			}
			out = append(out, c)
			from++
		}
	}
	if len(out) < size {
		return nil, io.ErrUnexpectedEOF
	}
	return out, nil
}
