package slicer_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"spoolwright/catalog/slicer"
)

// part is repeated in a file, which is only generated while it is read.
type part struct {
	data  []byte
	times int
}

// parts reads one part after the other.
type parts struct {
	all  []part
	rest []byte
}

func (p *parts) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if len(p.all) == 0 {
			return 0, io.EOF
		}
		p.rest = p.all[0].data
		if p.all[0].times--; p.all[0].times <= 0 {
			p.all = p.all[1:]
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// file returns a reader of the parts: texts, bytes, and parts.
func file(of ...any) io.Reader {
	p := &parts{}
	for _, one := range of {
		switch v := one.(type) {
		case string:
			p.all = append(p.all, part{[]byte(v), 1})
		case []byte:
			p.all = append(p.all, part{v, 1})
		case part:
			p.all = append(p.all, v)
		case []part:
			p.all = append(p.all, v...)
		}
	}
	return p
}

// junk is 64 kB of bytes that cannot be compressed, without line breaks.
var junk = func() string {
	b, state := make([]byte, 64<<10), uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state>>24) | 0x80
	}
	return string(b)
}()

// moves are lines of G-code that compress as usual.
var moves = func() string {
	var b strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&b, "G1 X%d.%d Y%d.%d E0.0%d\n", junk[i], junk[i+1], junk[i+2], junk[i+3], junk[i+4])
	}
	return b.String()
}()

// times repeats the data until it has about the number of megabytes.
func times(data string, megabytes int) part {
	return part{[]byte(data), max(1, megabytes<<20/len(data))}
}

// block is a block of binary G-code; compression 1 packs the data.
func block(kind, compression uint16, data string, parameters ...uint16) string {
	var b bytes.Buffer
	size := uint32(len(data))
	binary.Write(&b, binary.LittleEndian, []uint16{kind, compression})
	binary.Write(&b, binary.LittleEndian, size)
	if compression != 0 {
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		io.WriteString(z, data)
		z.Close()
		data = packed.String()
		binary.Write(&b, binary.LittleEndian, uint32(len(data)))
	}
	if parameters == nil {
		parameters = []uint16{0}
	}
	binary.Write(&b, binary.LittleEndian, parameters)
	b.WriteString(data)
	binary.Write(&b, binary.LittleEndian, crc32.ChecksumIEEE(b.Bytes()))
	return b.String()
}

const binaryHeader = "GCDE\x01\x00\x00\x00\x01\x00"

// stored and packed are entries of a ZIP file with the part as content.
func stored(name string, of part) []part {
	sum, size := sumOf(of)
	return []part{{header(name, zip.Store, sum, size, size), 1}, of}
}

func packed(name string, of part) []part {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		_, err = z.Write(of.data)
	}
	if err == nil {
		err = z.Flush() // so that the result can be repeated
	}
	if err != nil {
		panic(err)
	}
	sum, size := sumOf(of)
	const end = "\x01\x00\x00\xff\xff" // an empty last block
	return []part{{header(name, zip.Deflate, sum, int64(b.Len()*of.times+len(end)), size), 1}, {b.Bytes(), of.times},
		{[]byte(end), 1}}
}

// streamed is an entry whose sizes follow.
func streamed(name string, of part) []part {
	all := packed(name, of)
	clear(all[0].data[14:26])
	all[0].data[6] |= 8
	sizes := []byte("PK\x07\x08")
	sum, size := sumOf(of)
	for _, n := range []int64{int64(sum), int64(len(all[1].data)*of.times + len(all[2].data)), size} {
		sizes = binary.LittleEndian.AppendUint32(sizes, uint32(n))
	}
	return append(all, part{sizes, 1})
}

func sumOf(of part) (sum uint32, size int64) {
	for range of.times {
		sum = crc32.Update(sum, crc32.IEEETable, of.data)
	}
	return sum, int64(len(of.data) * of.times)
}

func header(name string, method uint16, sum uint32, packed, size int64) []byte {
	b := []byte("PK\x03\x04\x14\x00\x00\x00")
	b = binary.LittleEndian.AppendUint16(b, method)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, sum)
	b = binary.LittleEndian.AppendUint32(b, uint32(packed))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	return append(append(b, 0, 0), name...)
}

// repeat returns the entries of a ZIP file n times.
func repeat(n int, entry []part) (all []part) {
	for range n {
		all = append(all, entry...)
	}
	return all
}

const zipEnd = "PK\x05\x06"

// largeFiles are files of up to 200 MB, and the beginning of the error of reading them, or "". Most are hostile: what
// they name, pack or repeat costs much memory or time in a reader that trusts them.
var largeFiles = []struct {
	name string
	file func() io.Reader
	want string
}{
	{"gcode", func() io.Reader {
		return file(times(moves, 199), ";TIME:60\n;Filament used: 1m\n")
	}, ""},
	{"gcode of CuraEngine", func() io.Reader {
		return file(";TIME:6666\n;Filament used: 0m\n;LAYER_COUNT:1\n", times(moves, 199),
			";TIME_ELAPSED:5\n")
	}, ""},
	{"bgcode", func() io.Reader {
		return file(binaryHeader, block(4, 1, "filament used [g]=5\nestimated printing time (normal mode)=1h\n"),
			times(block(1, 0, strings.Repeat("G1 X10\n", 9000)), 199))
	}, ""},
	{"gcode.3mf", func() io.Reader {
		return file(packed("Metadata/slice_info.config", times(`<config><plate><metadata key="index" value="1"/>`+
			`<metadata key="prediction" value="60"/></plate></config>`, 0)),
			packed("Metadata/project_settings.config", times(`{"printer_model":"P1S"}`, 0)),
			stored("Metadata/plate_1.gcode", times(moves, 198)), zipEnd)
	}, ""},
	{"ufp", func() io.Reader {
		return file(packed("3D/model.gcode", times(";TIME:60\n"+moves, 100)),
			stored("Thumbnails/x.png", times(junk, 150)), zipEnd)
	}, ""},
	{"unsliced 3mf", func() io.Reader {
		model := times(`<metadata name="Title">Vase</metadata><resources/>`, 190)
		return file(packed("3D/3dmodel.model", model), zipEnd)
	}, ""},

	{"too large", func() io.Reader { return file(";TIME:60\n", times(moves, 201)) }, "The file is larger than 200 MB"},
	{"a line without an end", func() io.Reader {
		return file("; filament_type = ", times(strings.Repeat("PLA;", 1000), 199))
	}, "This is not a sliced file"},
	{"long settings", func() io.Reader {
		var all []any
		for _, name := range []string{"filament used [g]", "filament used [mm]", "filament_type", "filament_colour",
			"title", "filament_settings_id", "filament_vendor", "filament_density", "filament_diameter",
			"objects_info"} {
			all = append(all, "; "+name+" = ", times(strings.Repeat("1;", 1000), 1), "\n")
		}
		for i := range 80 {
			all = append(all, fmt.Sprintf(";EXTRUDER_TRAIN.%d.MATERIAL.VOLUME_USED:", i),
				times(strings.Repeat("1", 1000), 1), "\n")
		}
		return file(append(all, ";TIME:60\n")...)
	}, ""},
	{"objects", func() io.Reader {
		return io.MultiReader(file(";TIME:60\n"), &objects{left: 199 << 20})
	}, ""},
	{"pictures", func() io.Reader {
		var all []any
		for i := range 70 {
			all = append(all, fmt.Sprintf("; thumbnail begin %dx100 1\n", i+1),
				part{[]byte(strings.Repeat("; "+strings.Repeat("A", 76)+"\n", 100)), 330}, "; thumbnail end\n")
		}
		return file(append(all, ";TIME:60\n")...)
	}, ""},
	{"a picture without an end", func() io.Reader {
		return file(";TIME:60\n; thumbnail begin 999x999 1\n",
			times(strings.Repeat("; "+strings.Repeat("A", 78)+"\n", 100), 199))
	}, ""},

	{"a block of 4 GB", func() io.Reader {
		return file(binaryHeader, "\x00\x00\x00\x00\xff\xff\xff\xff", times(junk, 199))
	}, "The file is damaged: a block"},
	{"a block of 4 MB", func() io.Reader {
		return file(binaryHeader, "\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00", times(junk, 199))
	}, "The file unpacks to far more"},
	{"a bomb in a block", func() io.Reader {
		return file(binaryHeader, times(block(4, 1, "filament used [g]="+strings.Repeat("1,", 500_000)), 9),
			block(1, 0, "G1\n"))
	}, "The file unpacks to far more"},
	{"objects in a block", func() io.Reader {
		objects := `objects_info={"objects":[` + strings.Repeat("{},", 300_000) + `{}]}`
		return file(binaryHeader, times(block(4, 1, objects), 9),
			block(4, 0, "estimated printing time (normal mode)=1h\n"), block(1, 0, "G1\n"))
	}, "The file unpacks to far more"},
	{"pictures in blocks", func() io.Reader {
		var all []any
		for i := range uint16(90) { // the sum of a block is that of its head and of the picture
			head := block(5, 0, "", 0, i+1, 100)
			head = head[:4] + "\x00\x00\x1f\x00" + head[8:14] // 31 × 64 kB
			sum := crc32.ChecksumIEEE([]byte(head))
			for range 31 {
				sum = crc32.Update(sum, crc32.IEEETable, []byte(junk))
			}
			all = append(all, head, part{[]byte(junk), 31}, binary.LittleEndian.AppendUint32(nil, sum))
		}
		return file(append(append([]any{binaryHeader}, all...), block(1, 0, "G1\n"))...)
	}, "The file unpacks to far more"},

	{"a bomb", func() io.Reader {
		return file(packed("3D/model.gcode", times(strings.Repeat("G1 X1\n", 100_000), 3000)), zipEnd)
	}, "The file unpacks to far more"},
	{"many bombs", func() io.Reader {
		return file(repeat(2000, streamed("x", times(strings.Repeat("x", 1<<20), 50))), zipEnd)
	}, "The file unpacks to far more"},
	{"many settings", func() io.Reader {
		settings := packed("Metadata/slice_info.config", times(strings.Repeat("<plate/>", 100_000), 2))
		return file(repeat(9000, settings), zipEnd)
	}, "This ZIP file is neither"},
	{"settings without an end", func() io.Reader {
		return file(packed("Metadata/slice_info.config", times(strings.Repeat("<plate/>", 100_000), 50)), zipEnd)
	}, "The file unpacks to far more"},
	{"attributes", func() io.Reader {
		plate := times("<plate "+strings.Repeat(`a="" `, 700_000)+"/>", 0)
		return file(packed("Metadata/slice_info.config", plate), zipEnd)
	}, "The file unpacks to far more"},
	{"a list in settings", func() io.Reader {
		return file(packed("Metadata/project_settings.config",
			times(`{"layer_height":[`+strings.Repeat(`0,`, 1_900_000)+`0]}`, 0)),
			packed("3D/3dmodel.model", times("<model/>", 0)), zipEnd)
	}, ""},
	{"many fields in settings", func() io.Reader {
		var b strings.Builder
		for i := range 250_000 {
			fmt.Fprintf(&b, `"k%d":"",`, i)
		}
		return file(packed("Metadata/project_settings.config", times(`{`+b.String()+`"z":1}`, 0)),
			packed("3D/3dmodel.model", times("<model/>", 0)), zipEnd)
	}, ""},
	{"attributes of a material", func() io.Reader {
		material := times("<fdmmaterial "+strings.Repeat(`a="" `, 700_000)+"/>", 0)
		return file(packed("Materials/x.xml.fdm_material", material),
			packed("3D/model.gcode", times(";TIME:60\n", 0)), zipEnd)
	}, ""},
	{"pictures of plates", func() io.Reader {
		var all []part
		for i := range 90 {
			all = append(all, stored(fmt.Sprintf("Metadata/plate_%d.png", i+1), times(junk, 2))...)
		}
		return file(all, packed("3D/3dmodel.model", times("<model/>", 0)), zipEnd)
	}, ""},
	{"parts", func() io.Reader {
		return file(repeat(10_001, stored(strings.Repeat("n", 20_000), part{[]byte("x"), 1})), zipEnd)
	}, "The file has more than 10000 parts"},
}

// objects is G-code with a new object in each line.
type objects struct {
	left, n int
	line    []byte
}

func (o *objects) Read(b []byte) (int, error) {
	if o.left <= 0 {
		return 0, io.EOF
	}
	if len(o.line) == 0 {
		o.n++
		o.line = append(append(o.line[:0], "; printing object name of an object "...), strconv.Itoa(o.n)...)
		o.line = append(o.line, '\n')
	}
	n := copy(b, o.line)
	o.line, o.left = o.line[n:], o.left-n
	return n, nil
}

// TestMemory reads each of the large files in a process of its own. Its heap never shrinks, so that its size is the
// most that was in use at any time, with the garbage of GOGC and the generator of the file. Each fourth file is read
// outside of CI.
func TestMemory(t *testing.T) {
	t.Parallel()
	const most = 24 << 20
	name := os.Getenv("LARGE_FILE")
	for i, c := range largeFiles {
		if name == "" {
			if i%4 != 0 && os.Getenv("CI_STRICT") != "1" && os.Getenv("RIGS") != "1" { // as in testkit.Rigs
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory$", "-test.v")
				cmd.Env = append(os.Environ(), "LARGE_FILE="+c.name, "GOGC=20")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				} else if testing.Verbose() {
					t.Logf("%s", out)
				}
			})
		}
		if name != c.name {
			continue
		}
		in := c.file()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := slicer.Read(in)
		runtime.ReadMemStats(&after)
		used := after.HeapSys - before.HeapInuse
		if t.Logf("%d kB of memory, %v", used>>10, err); used > most {
			t.Errorf("more than %d kB", most>>10)
		}
		text := ""
		if wrong, ok := errors.AsType[*slicer.Error](err); ok {
			text = wrong.Error()
		} else if err != nil {
			t.Errorf("%T", err)
		}
		if (text == "") != (c.want == "") || !strings.HasPrefix(text, c.want) {
			t.Errorf("want the error %q", c.want)
		}
	}
}

// BenchmarkRead reads the large files that are as slicers write them.
func BenchmarkRead(b *testing.B) {
	for _, c := range largeFiles[:6] {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				in := c.file()
				b.StartTimer()
				f, err := slicer.Read(in)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(f.Size)
			}
		})
	}
}
