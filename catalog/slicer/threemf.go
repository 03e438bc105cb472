package slicer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// archive collects the values in the entries of a 3MF or UFP file.
type archive struct {
	model     bool // has a model: it is a 3MF file
	title     string
	program   string // that wrote the project, according to the file
	slicer    string // that wrote the G-code: projects of OrcaSlicer name BambuStudio
	plates    map[int]*Plate
	objects   map[*Plate]map[string]bool
	settings  settings
	printer   string // the printer's model of slice_info.config
	nozzle    float64
	pictures  map[int][]byte  // of the plates
	picture   []byte          // of the whole file
	size      int             // of all pictures
	seen      map[string]bool // the entries with settings that were read; of entries with the same name, the first counts
	left      int             // bytes of settings that may still be read
	gcode     *gcode          // of a UFP file
	materials []Filament      // of a UFP file
}

// settings are the fields of project_settings.config that are used, and the names of plates.
type settings map[string][]string

var usedSettings = map[string]bool{"printer_model": true, "layer_height": true, "nozzle_diameter": true,
	"filament_settings_id": true, "filament_vendor": true, "filament_density": true, "filament_diameter": true}

// headBytes is the length of the beginning of a plate's G-code, which names the program.
const headBytes = 4 << 10

var plateName = regexp.MustCompile(`^Metadata/plate_(\d{1,3})\.(png|gcode)$`)

// readZIP reads a 3MF or UFP file.
func readZIP(r *bufio.Reader) (*File, error) {
	a := &archive{plates: map[int]*Plate{}, pictures: map[int][]byte{}, objects: map[*Plate]map[string]bool{},
		settings: settings{}, seen: map[string]bool{}, left: maxSettings}
	if err := walkZIP(r, a.entry); err != nil {
		return nil, err
	}
	switch {
	case a.gcode != nil:
		return a.ufp()
	case a.model || len(a.plates) > 0:
		return a.threeMF()
	}
	return nil, broken("This ZIP file is neither a 3MF nor a UFP file")
}

// entry reads an entry of the ZIP file if it describes the print.
func (a *archive) entry(name string, content io.Reader) (err error) {
	plate := plateName.FindStringSubmatch(name)
	switch {
	case name == "3D/3dmodel.model":
		a.model = true
		return a.readModel(io.LimitReader(content, lineBuffer))
	case strings.HasPrefix(name, "Metadata/") && path.Ext(name) == ".config":
		if a.seen[name] {
			return nil
		}
		switch name {
		case "Metadata/slice_info.config":
			err = a.elements(content, a.sliceInfo())
		case "Metadata/model_settings.config":
			err = a.elements(content, a.modelSettings())
		case "Metadata/project_settings.config":
			err = a.projectSettings(content)
		default:
			return nil
		}
		a.seen[name] = true
		return err
	case plate != nil && plate[2] == "png":
		if n, _ := strconv.Atoi(plate[1]); n <= maxPlates && a.pictures[n] == nil {
			a.pictures[n], err = a.readPicture(content)
		}
		return err
	case name == "Metadata/thumbnail.png" || name == "Thumbnails/thumbnail.png" ||
		name == "Auxiliaries/.thumbnails/thumbnail_3mf.png":
		if a.picture == nil {
			a.picture, err = a.readPicture(content)
		}
		return err
	case plate != nil && plate[2] == "gcode" && a.slicer == "":
		head := newGCode()
		_ = head.scan(bufio.NewReader(io.LimitReader(content, headBytes))) // the facts are in slice_info.config
		a.slicer = head.values[program]
		return nil
	case name == "3D/model.gcode" && a.gcode == nil:
		a.gcode = newGCode()
		return a.gcode.scan(bufio.NewReaderSize(content, lineBuffer))
	case strings.HasPrefix(name, "Materials/") && path.Ext(name) == ".fdm_material":
		return a.readMaterial(content)
	}
	return nil
}

// tokens is a reader of settings. It fails if a token is longer than maxToken, or if all settings are longer than
// maxSettings: a parser needs much more memory than the token that it reads.
type tokens struct {
	a    *archive
	r    io.Reader
	left int // of the token
	err  error
}

func (t *tokens) next() { t.left = maxToken }

func (t *tokens) Read(b []byte) (n int, err error) {
	if n = min(len(b), t.left, t.a.left); n == 0 {
		t.err = errBomb
		return 0, errBomb
	}
	n, err = t.r.Read(b[:n])
	t.left -= n
	t.a.left -= n
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}

// projectSettings reads project_settings.config, whose fields are texts and lists of texts. It stops at anything that
// is not JSON.
func (a *archive) projectSettings(content io.Reader) error {
	in := &tokens{a: a, r: content}
	d := json.NewDecoder(in)
	field, isName, depth := "", false, 0
	for {
		in.next()
		token, err := d.Token()
		if err != nil {
			return in.err
		}
		text, isText := token.(string)
		delimiter, isDelimiter := token.(json.Delim)
		switch {
		case isText && isName && depth == 1:
			field, isName = text, false
			continue
		case isDelimiter && (delimiter == '{' || delimiter == '['):
			if depth++; depth > 8 {
				return nil
			}
		case isDelimiter:
			depth--
		case usedSettings[field] && len(a.settings[field]) < maxSlots:
			a.settings[field] = append(a.settings[field], strings.Clone(text[:min(len(text), 4*maxText)]))
		}
		isName = depth == 1 // a value has ended, or the first name follows
	}
}

// readPicture returns a picture, or nil if it is too large or if the file has too many.
func (a *archive) readPicture(content io.Reader) ([]byte, error) {
	if a.size > maxPictures {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(content, maxPicture+1))
	if a.size += len(data); err != nil || len(data) > maxPicture || a.size > maxPictures {
		return nil, err
	}
	return data, nil
}

// elements calls fn for the beginning of each element of an XML text, with its attributes.
func (a *archive) elements(content io.Reader, fn func(name string, attribute func(string) string)) error {
	in := &tokens{a: a, r: content}
	d := xml.NewDecoder(in)
	d.Strict = false
	for {
		in.next()
		token, err := d.RawToken()
		switch {
		case in.err != nil:
			return in.err
		case err == io.EOF:
			return nil
		case err != nil:
			return broken("The file is damaged: its description of the plates cannot be read")
		}
		if start, ok := token.(xml.StartElement); ok {
			fn(start.Name.Local, func(name string) string {
				for _, a := range start.Attr {
					if a.Name.Local == name {
						return a.Value
					}
				}
				return ""
			})
		}
	}
}

// sliceInfo returns the function that reads the elements of slice_info.config.
func (a *archive) sliceInfo() func(string, func(string) string) {
	var p *Plate
	return func(name string, attribute func(string) string) {
		switch name {
		case "header_item":
			if attribute("key") == "X-BBL-Client-Version" && a.program == "" {
				a.program = attribute("value")
			}
		case "plate":
			p = &Plate{}
		}
		if p == nil {
			return
		}
		switch value := attribute("value"); name {
		case "metadata":
			switch attribute("key") {
			case "index":
				n, err := strconv.Atoi(value)
				if err != nil || n < 1 || n > maxPlates || a.plates[n] != nil {
					return
				}
				p.Number, a.objects[p] = n, map[string]bool{}
				a.plates[n] = p
			case "prediction":
				p.Seconds = seconds(number(value))
				p.Sliced = p.Sliced || p.Seconds > 0
			case "printer_model_id":
				a.printer = value
			case "nozzle_diameters":
				a.nozzle = number(first(numbers(value)))
			}
		case "object":
			if all := a.objects[p]; all != nil && attribute("skipped") != "true" && len(all) < maxObjects {
				name := attribute("name")
				all[name[:min(len(name), maxText)]+"\x00"+strconv.Itoa(len(all))] = true
			}
		case "filament":
			a.filament(p, attribute)
		}
	}
}

// filament adds a filament of slice_info.config to the plate.
func (a *archive) filament(p *Plate, attribute func(string) string) {
	m := Filament{Type: attribute("type"), Color: attribute("color"), Grams: number(attribute("used_g")),
		Length: 1000 * number(attribute("used_m"))}
	if (m.Grams > 0 || m.Length > 0) && len(p.Filaments) < maxSlots {
		m.Profile = attribute("id") // the index in the settings, until these are known
		p.Filaments = append(p.Filaments, m)
		p.Sliced = true
	}
}

// modelSettings returns the function that reads the names of the plates.
func (a *archive) modelSettings() func(string, func(string) string) {
	n := 0
	return func(name string, attribute func(string) string) {
		switch {
		case name == "plate":
			n = 0
		case name != "metadata":
		case attribute("key") == "plater_id":
			n, _ = strconv.Atoi(attribute("value"))
		case attribute("key") == "plater_name" && n > 0 && n <= maxPlates && attribute("value") != "":
			a.settings["plater_name_"+strconv.Itoa(n)] = []string{attribute("value")}
		}
	}
}

// readModel reads the metadata at the beginning of a model.
func (a *archive) readModel(content io.Reader) error {
	d := xml.NewDecoder(content)
	d.Strict = false
	field := ""
	for {
		token, err := d.RawToken()
		if wrong, ok := errors.AsType[*Error](err); ok {
			return wrong
		}
		if err != nil {
			return nil // the end of the read part, or a model that is not XML; the model is not needed
		}
		switch t := token.(type) {
		case xml.StartElement:
			if field = ""; t.Name.Local == "metadata" {
				for _, attr := range t.Attr {
					if attr.Name.Local == "name" {
						field = attr.Value
					}
				}
			}
			if t.Name.Local == "resources" {
				return nil
			}
		case xml.EndElement:
			field = ""
		case xml.CharData:
			switch {
			case field == "Title" && a.title == "":
				a.title = string(t)
			case field == "Application":
				a.program = strings.Replace(string(t), "-", " ", 1)
			}
		}
	}
}

// threeMF returns the File of the 3MF entries that were read.
func (a *archive) threeMF() (*File, error) {
	f := &File{Name: a.title, Format: "3mf", Program: cmp.Or(a.slicer, a.program), NozzleMM: a.nozzle}
	f.Printer = first(a.settings["printer_model"])
	if f.Printer == "" {
		f.Printer = a.printer
	}
	f.LayerHeightMM = number(first(a.settings["layer_height"]))
	if f.NozzleMM == 0 {
		f.NozzleMM = number(first(a.settings["nozzle_diameter"]))
	}
	for n, p := range a.plates {
		p.Pieces = countCopies(a.objects[p])
		p.Picture, p.Name = a.pictures[n], first(a.settings["plater_name_"+strconv.Itoa(n)])
		for i := range p.Filaments {
			a.describe(&p.Filaments[i])
		}
		f.Plates = append(f.Plates, *p)
	}
	sort.Slice(f.Plates, func(i, j int) bool { return f.Plates[i].Number < f.Plates[j].Number })
	if slices.ContainsFunc(f.Plates, func(p Plate) bool { return p.Sliced }) {
		f.Plates = slices.DeleteFunc(f.Plates, func(p Plate) bool { return !p.Sliced })
	} else {
		f.Plates = []Plate{{Number: 1, Picture: a.pictures[1]}}
	}
	if f.Plates[0].Picture == nil {
		f.Plates[0].Picture = a.picture
	}
	return f, nil
}

// describe sets the empty fields of a filament from the settings of the project.
func (a *archive) describe(m *Filament) {
	i, err := strconv.Atoi(m.Profile)
	m.Profile = ""
	if err != nil || i < 1 {
		return
	}
	m.Profile, m.Vendor = at(a.settings["filament_settings_id"], i-1), at(a.settings["filament_vendor"], i-1)
	m.DensityG = number(at(a.settings["filament_density"], i-1))
	m.DiameterMM = number(at(a.settings["filament_diameter"], i-1))
}

// readMaterial reads a description of a material of Cura. Only the first element of each name counts.
func (a *archive) readMaterial(content io.Reader) error {
	if len(a.materials) >= maxSlots {
		return nil
	}
	in := &tokens{a: a, r: content, left: 4 * maxToken}
	var m struct {
		Brand    string `xml:"metadata>name>brand"`
		Material string `xml:"metadata>name>material"`
		Color    string `xml:"metadata>name>color"`
		Label    string `xml:"metadata>name>label"`
		Code     string `xml:"metadata>color_code"`
		Density  string `xml:"properties>density"`
		Diameter string `xml:"properties>diameter"`
	}
	d := xml.NewDecoder(in)
	d.Strict = false
	switch err := d.Decode(&m); {
	case in.err != nil && in.err != errBomb:
		return in.err
	case err != nil:
		return nil // the file is useful without it
	}
	color := m.Code
	color = cmp.Or(color, m.Color)
	a.materials = append(a.materials, Filament{Type: m.Material, Color: color, Vendor: m.Brand, Profile: m.Label,
		DensityG: number(m.Density), DiameterMM: number(m.Diameter)})
	return nil
}

// ufp returns the File of the UFP entries that were read. Its materials are in the order of the extruders.
func (a *archive) ufp() (*File, error) {
	f, err := a.gcode.file()
	if err != nil {
		return nil, err
	}
	f.Format = "ufp"
	p := &f.Plates[0]
	if a.picture != nil {
		p.Picture = a.picture
	}
	for i := range p.Filaments {
		n := i
		if len(a.materials) == 1 {
			n = 0 // one material for all extruders
		}
		if m := &p.Filaments[i]; len(a.materials) == 1 || len(a.materials) == len(p.Filaments) {
			known := a.materials[n]
			known.Grams, known.Length, known.Volume = m.Grams, m.Length, m.Volume
			*m = known
		}
	}
	return f, nil
}
