package watch

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bambuTray is a place for a spool of a printer of Bambu Lab. A message has a whole tray, or what has changed of one
// with a spool; an empty one has only its id.
type bambuTray struct {
	ID       loose `json:"id"`
	Tag      loose `json:"tag_uid"`
	UUID     loose `json:"tray_uuid"`
	Material loose `json:"tray_type"`
	Color    loose `json:"tray_color"` // RRGGBBAA
	Remain   loose `json:"remain"`     // percent; -1 unknown
}

// slotName returns the name that people know of the global number of a tray: unit*4 + slot; "" for none.
func slotName(n int) string {
	switch {
	case n == 254 || n == 255:
		return "External"
	case n >= 128 && n <= 135: // AMS HT, with one tray
		return "HT" + strconv.Itoa(n-127)
	case n >= 64 && n < 68: // AMS Lite of the A2L
		n -= 64
	case n < 0 || n >= 16:
		return ""
	}
	return string(rune('A'+n/4)) + strconv.Itoa(n%4+1)
}

// load takes the trays of a message.
func (b *bambu) load() {
	for _, unit := range b.report.AMS.Units {
		id, ok := unit.ID.number()
		for _, tray := range unit.Trays {
			slot, valid := tray.ID.number()
			if ok && id >= 128 {
				b.put(slotName(int(id)), tray)
			} else if ok && valid && slot >= 0 && slot < 4 {
				b.put(slotName(int(id*4+slot)), tray)
			}
		}
	}
	if b.report.External != nil {
		b.put("External", *b.report.External)
	}
}

var isColor = regexp.MustCompile(`^[0-9A-Fa-f]{6}`) // and the opacity

// put keeps what a tray has.
func (b *bambu) put(name string, t bambuTray) {
	if name == "" {
		return
	}
	s := b.slots[name]
	if t.ID = ""; t == (bambuTray{}) {
		s = Slot{}
	}
	if t.UUID+t.Tag != "" { // the former is more reliable; both are zeros without a chip
		s.Tag = cut(cmp.Or(tagOf(t.UUID), tagOf(t.Tag)), 100)
	}
	if s.Material = cut(cmp.Or(string(t.Material), s.Material), 100); isColor.MatchString(string(t.Color)) {
		s.Color = "#" + strings.ToUpper(string(t.Color[:6]))
	}
	if n, ok := t.Remain.number(); ok {
		if s.Remaining = nil; n >= 0 && n <= 100 {
			s.Remaining = new(int(n))
		}
	}
	s.Slot, s.Empty = name, s.Material == "" && s.Tag == ""
	b.slots[name] = s
}

// list returns the slots in the order of their names, or nil if the printer has not said any.
func (b *bambu) list() (list []Slot) {
	for _, name := range slices.Sorted(maps.Keys(b.slots)) {
		list = append(list, b.slots[name])
	}
	return list
}

// uses returns the slots of the job's filaments: by the printer's mapping, by the one that was sent with the job, or
// the trays that it printed from. A tray with the same filament continues the one before it, which ran out; without a
// mapping, one with another filament is the next filament of the file.
func (b *bambu) uses() (list []Use) {
	add := func(tool, tray int) {
		if name := slotName(tray); name != "" {
			list = append(list, Use{Tool: tool, Slot: name})
		}
	}
	for tool, n := range b.report.Mapping { // unit*256 + slot, or 65535
		if unit := n >> 8; unit >= 128 && n != 65535 {
			add(tool, unit)
		} else if n != 65535 {
			add(tool, unit*4+n&0xff)
		}
	}
	if list != nil { // tray_now may be the number of a tray in its unit
		return list
	}
	for tool, n := range b.sent {
		add(tool, n)
	}
	sent := list != nil
	n, ok := b.report.AMS.Now.number()
	if ok && n != 255 && len(b.seen) < maxUses && !slices.Contains(b.seen, int(n)) {
		b.seen = append(b.seen, int(n))
	}
	for _, n := range b.seen {
		tool, twin := 0, false
		this := b.slots[slotName(n)]
		for _, u := range list {
			other := b.slots[u.Slot]
			if twin = u.Slot == this.Slot || other.Material == this.Material && other.Color == this.Color; twin {
				tool = u.Tool
				break
			}
			tool = max(tool, u.Tool+1)
		}
		known := slices.ContainsFunc(list, func(u Use) bool { return u.Slot == slotName(n) })
		if !known && (twin || !sent) {
			add(tool, n)
		}
	}
	return list
}

// tagOf returns the number of a chip, or "" for zeros.
func tagOf(l loose) string {
	if strings.Trim(string(l), "0") == "" {
		return ""
	}
	return string(l)
}
