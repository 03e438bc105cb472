package slicer

import (
	"archive/zip"
	"bufio"
	"bytes"
	"io"
	"testing"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1d 2h 3m 4s": 93784, "45m 10s": 2710, "1h": 3600, "7325": 7325, "7325.6": 7326, "01:02:03": 3723, "2:30": 150,
		"1 hours 23 minutes": 4980, "1h2m5s": 3725, "": 0, "soon": 0, "-5": 0, "99999999d": 0, "1.2.3h": 0, "NaN": 0,
	} {
		if got := parseDuration(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list  string
		count int
		want  []string
	}{
		{"PLA;PETG", 2, []string{"PLA", "PETG"}},
		{"PLA, PETG", 2, []string{"PLA", "PETG"}},
		{`"A; b";"C"`, 2, []string{"A; b", "C"}},
		{`Polymaker, Inc`, 1, []string{"Polymaker, Inc"}},
		{`"say \"hi\";"`, 1, []string{`say "hi";`}},
		{"", 0, nil},
	} {
		got := texts(c.list, c.count)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", c.list, got)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %q", c.list, got)
			}
		}
	}
}

func TestCountCopies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  int
		names []string
	}{
		{0, nil},
		{2, []string{"cube.stl id:0 copy 0", "cube.stl id:0 copy 1"}},
		{1, []string{"cube.stl id:0 copy 0", "lid.stl id:1 copy 0"}},
		{3, []string{"gear.stl", "gear(1).stl", "gear(2).stl"}},
		{2, []string{"clip.stl_id_0_copy_0", "clip.stl_id_0_copy_1"}},
		{1, []string{"part_1", "part_2"}}, // two parts of one thing
	} {
		all := map[string]bool{}
		for _, name := range c.names {
			all[name] = true
		}
		if got := countCopies(all); got != c.want {
			t.Errorf("%q: %d", c.names, got)
		}
	}
}

// TestStreamedZIP reads a ZIP file whose sizes follow its entries, as programs write it that do not seek.
func TestStreamedZIP(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, text := range []string{"one", "two"} {
		w, err := z.Create(text)
		if err == nil {
			_, err = io.WriteString(w, "content of "+text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) (got string, err error) {
		err = walkZIP(bufio.NewReader(bytes.NewReader(data)), func(name string, content io.Reader) error {
			var text []byte
			if name == "two" {
				text, err = io.ReadAll(content)
			}
			got += name + "=" + string(text) + " "
			return err
		})
		return got, err
	}
	if got, err := read(b.Bytes()); got != "one= two=content of two " || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	at := bytes.Index(b.Bytes(), []byte("PK\x07\x08"))
	damaged := bytes.Clone(b.Bytes())
	damaged[at+5]++
	if _, err := read(damaged); err == nil {
		t.Error("a wrong checksum is not found")
	}
}
