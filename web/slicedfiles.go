package web

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"spoolwright/server"
	"spoolwright/value/language"
)

// The limits of the form that takes sliced files, and of the form that saves what was read. The service reads a file
// while it arrives.
const (
	maxSlicedFiles = 20
	maxSlicedBytes = 1 << 30
	maxReadBytes   = 9 << 20 // less than what a form may have
)

// slicedFile is what the API read from a file, with the choices of the visitor.
type slicedFile struct {
	Problem string `json:"-"`
	Label   string `json:"-"` // the name of the file
	N       int    `json:"-"` // the place in the form

	Name      string           `json:"name"`
	Minutes   *int64           `json:"estimated_print_time_minutes"`
	PerPlate  int64            `json:"pieces_per_plate"`
	FileName  *string          `json:"file_name"`
	SHA256    string           `json:"file_sha256"`
	SlicedBy  *string          `json:"sliced_by"`
	Printer   *string          `json:"printer_model"`
	Nozzle    num              `json:"nozzle_mm"`
	Layer     num              `json:"layer_height_mm"`
	Materials []slicedMaterial `json:"materials"`
	Plates    []slicedPlate    `json:"plates"`
	Changes   []struct {
		Field    string
		Old, New *string
	} `json:"changes"`
	Warnings []struct{ Text string } `json:"warnings"`
	Picture  string                  `json:"picture"`
	ID       string                  `json:"product_id"`
	Action   string                  `json:"action"`
}

type slicedPlate struct {
	Plate     int64   `json:"plate"`
	Name      *string `json:"name"`
	Minutes   *int64  `json:"estimated_print_time_minutes"`
	Materials []struct {
		Filament int `json:"filament"`
		Weight   num `json:"weight_grams"`
	} `json:"materials"`
	Picture string `json:"picture"`
}

// Title returns the name of the plate, with its number.
func (p slicedPlate) Title(v translator) string {
	title := v.t("Plate %s", strconv.FormatInt(p.Plate, 10))
	if p.Name != nil && *p.Name != "" {
		title = commas(v, []string{title, *p.Name})
	}
	return title
}

// Time returns the print time of the plate for a piece.
func (p slicedPlate) Time() num {
	if p.Minutes == nil {
		return ""
	}
	return num(strconv.FormatInt(*p.Minutes, 10))
}

// Weight returns the filament of the plate for a piece.
func (p slicedPlate) Weight() num {
	sum := 0.0
	for _, m := range p.Materials {
		sum += float(m.Weight)
	}
	return num(strconv.FormatFloat(math.Round(sum*100)/100, 'f', -1, 64))
}

type slicedMaterial struct {
	material
	Profile    string     `json:"profile"`
	FileType   string     `json:"file_material"`
	FileColor  string     `json:"file_color"`
	Weight     num        `json:"weight_grams"`
	FromLength bool       `json:"from_length"`
	Match      string     `json:"match"`
	Candidates []material `json:"candidates"`
	Chosen     string     `json:"-"`
}

// FromFile returns the description of the filament in the file.
func (m slicedMaterial) FromFile(v translator) string {
	return strings.TrimSpace(cmp.Or(m.FileType, v.t("Unknown material")) + " " + m.FileColor)
}

// Verdict returns how the filament was matched, in words.
func (m slicedMaterial) Verdict(v translator) string {
	return v.t(map[string]language.Text{"equal": "The farm has it.", "near": "The nearest that the farm has.",
		"material": "The farm has it in other colors only.", "none": "The farm has nothing like it.",
		"chosen": "Chosen."}[m.Match])
}

// Swatch returns the picture of the color in the file.
func (m slicedMaterial) Swatch() template.HTML {
	return newSwatch("", false, m.FileColor[:min(7, len(m.FileColor))])
}

// key returns the text that stands for a filament in a form.
func (m material) key() string {
	return strings.Join([]string{m.Material, m.Exact, m.Color, m.Diameter.String()}, "\t")
}

// Options returns the filaments to choose from: the match and the candidates.
func (m slicedMaterial) Options(v translator) []option {
	options := []option{{m.key(), m.Title()}}
	for _, c := range m.Candidates {
		name := c.Title()
		if c.Brand != "" && c.FilamentID == "" {
			name += " (" + c.Brand + ")"
		}
		if c.Diameter == m.Diameter || m.Diameter == "" && c.Diameter == "1.75" {
			c.Diameter = m.Diameter
		}
		if !slices.ContainsFunc(options, func(o option) bool { return o.Value == c.key() }) {
			options = append(options, option{c.key(), name})
		}
	}
	if m.MustChoose() {
		options[0] = option{"", v.t("Choose a filament")}
	}
	return options
}

// Time returns the print time of a piece.
func (f *slicedFile) Time() num { return num(strconv.FormatInt(*f.Minutes, 10)) }

// MustChoose reports whether the visitor must choose the filament, because its material is not in the file.
func (m slicedMaterial) MustChoose() bool {
	return m.Match == "none" && m.FileType == "" && len(m.Candidates) > 0
}

// Read returns the file as text, for the form that saves it.
func (f *slicedFile) Read() string {
	text, _ := json.Marshal(f)
	return string(text)
}

// PictureURL returns the address of the picture, which contains the picture.
func (f *slicedFile) PictureURL() template.URL {
	if _, err := base64.StdEncoding.DecodeString(f.Picture); err != nil {
		return ""
	}
	kind := "png"
	if strings.HasPrefix(f.Picture, "/9j/") {
		kind = "jpeg"
	}
	return template.URL("data:image/" + kind + ";base64," + f.Picture)
}

// slicedPage is the page that takes sliced files.
type slicedPage struct {
	Form    *form
	Files   []*slicedFile
	Product *product // the product to update, or nil
	Pieces  string
}

func showSlicedFiles(v *visit) error { return v.slicedPage(200, &slicedPage{Form: v.newForm()}) }

func (v *visit) slicedPage(status int, p *slicedPage) error {
	title := v.t("Products from sliced files")
	if id := v.r.URL.Query().Get("product"); id != "" {
		p.Product = &product{}
		if err := v.fetch(get("/api/v1/products/"+url.PathEscape(id), p.Product)); err != nil {
			return err
		}
		title = v.t("Update from a sliced file")
	}
	// The pictures of files that are not saved are in the page.
	v.w.Header().Set("Content-Security-Policy", strings.Replace(policy, "img-src 'self'", "img-src 'self' data:", 1))
	for i, f := range p.Files {
		f.N = i
	}
	return v.show(status, "sliced-files", title, p)
}

// Savable reports whether the page shows a file that can be saved.
func (p *slicedPage) Savable() bool {
	return slices.ContainsFunc(p.Files, func(f *slicedFile) bool { return f.SHA256 != "" })
}

// Choices returns the choices of the list of a filament.
func (p *slicedPage) Choices(v view, m slicedMaterial) template.HTML {
	return writeOptions(m.Options(v), cmp.Or(m.Chosen, m.key()))
}

// readSlicedFiles reads the files in the form, one after the other as they arrive.
func readSlicedFiles(v *visit) error {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return showSlicedFiles(v)
	}
	p := &slicedPage{Form: v.newForm()}
	id, update, pictures := v.r.URL.Query().Get("product"), v.r.URL.Query().Has("update"), 0
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return formError(err)
		}
		if part.FormName() != "file" {
			text, err := io.ReadAll(io.LimitReader(part, 100))
			if err != nil {
				return formError(err)
			}
			if part.FormName() == "pieces" {
				p.Pieces = strings.TrimSpace(string(text))
			}
			continue
		}
		if part.FileName() == "" {
			continue // no file was chosen
		}
		if len(p.Files) == maxSlicedFiles {
			p.Form.Problem = v.t("At most %d files at once: the others were left out.", maxSlicedFiles)
			break
		}
		f, err := v.readSlicedFile(part, id, p.Pieces, !update)
		if err != nil {
			return err
		}
		if pictures += len(f.Picture); pictures > maxReadBytes/2 {
			f.Picture = ""
		}
		for i := range f.Plates {
			if pictures += len(f.Plates[i].Picture); pictures > maxReadBytes/2 {
				f.Plates[i].Picture = ""
			}
		}
		p.Files = append(p.Files, f)
	}
	if len(p.Files) == 0 {
		p.Form.Errors["file"] = v.t("Choose a file.")
		return v.slicedPage(422, p)
	}
	if f := p.Files[0]; id != "" && update && f.Problem == "" {
		v.tell(&notice{Text: v.t(map[string]language.Text{"updated": "The product now matches the file.",
			"unchanged": "The file changes nothing."}[f.Action])})
		return v.redirect("/products/" + f.ID)
	}
	status := 200
	if slices.ContainsFunc(p.Files, func(f *slicedFile) bool { return f.Problem != "" }) {
		status = 422
	}
	return v.slicedPage(status, p)
}

// formError returns the error of a form with files that could not be read.
func formError(err error) error {
	if e, ok := errors.AsType[*server.Error](err); ok {
		return e
	}
	const detail language.Text = "The form could not be read completely"
	return &server.Error{Status: 400, Code: server.ErrMalformed.Code, Detail: string(detail)}
}

func (v *visit) readSlicedFile(part *multipart.Part, id, pieces string, dry bool) (*slicedFile, error) {
	f := &slicedFile{Label: fileLabel(part)}
	query := url.Values{"filename": {sentName(part)}, "dry_run": {strconv.FormatBool(dry)}}
	if id != "" {
		query.Set("product_id", id)
	}
	if pieces != "" {
		query.Set("pieces", pieces)
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	answer := v.site.server.CallStream(v.r, v.caller(), http.MethodPost,
		"/api/v1/products/from-file?"+query.Encode(), header, part)
	err := answer.Err()
	if err == nil {
		err = json.Unmarshal(answer.Body, f)
		for i := range f.Changes {
			f.Changes[i].Field = v.changedField(f.Changes[i].Field)
		}
		return f, err
	}
	f.Problem, err = fileProblem(v, err)
	return f, err
}

// changedField returns the name of a difference, with the number of its plate before that of the field.
func (v *visit) changedField(field string) string {
	plate, isPlate := strings.CutPrefix(field, "plates.")
	if !isPlate {
		if title, isMaterial := strings.CutPrefix(field, "materials."); isMaterial {
			return title
		}
		return v.label(field)
	}
	number, rest, hasField := strings.Cut(plate, ".")
	plate = v.t("Plate %s", number)
	if !hasField {
		return plate
	}
	return plate + ": " + v.changedField(rest)
}

// fileLabel returns the name of a file without its folders.
func fileLabel(part *multipart.Part) string {
	return path.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))
}

// sentName returns the name of a file for the API.
func sentName(part *multipart.Part) string {
	name := strings.ToValidUTF8(fileLabel(part), "")
	return strings.ToValidUTF8(name[:min(len(name), 180)], "")
}

// fileProblem returns the message about a file that the API rejected, or else the error itself.
func fileProblem(v *visit, err error) (string, error) {
	e := server.AsError(err)
	if e.Status != 400 && e.Status != 422 && e.Status != 409 && e.Status != 413 {
		return "", err
	}
	if len(e.Fields) > 0 && e.Status == 422 {
		return v.refusal(e.Fields[0].Field, e.Fields[0].Message), nil
	}
	return v.message(e.Detail), nil
}

// saveSlicedFiles creates the products of the files. The form has the files as text, and the choices of the visitor.
func saveSlicedFiles(v *visit) error {
	sent := v.sent()
	p := &slicedPage{Form: v.newForm()}
	saved, last := 0, ""
	for i := range maxSlicedFiles {
		at := strconv.Itoa(i) + "."
		text := sent.Values.Get(at + "read")
		if text == "" {
			continue
		}
		f := &slicedFile{}
		if err := json.Unmarshal([]byte(text), f); err != nil {
			return server.ErrMalformed
		}
		if f.FileName != nil {
			f.Label = *f.FileName
		}
		f.Name = strings.TrimSpace(sent.Values.Get(at + "name"))
		for j := range f.Materials {
			f.Materials[j].Chosen = sent.Values.Get(at + "filament." + strconv.Itoa(j))
		}
		if sent.Values.Get(at+"save") == "" {
			continue
		}
		if slices.ContainsFunc(f.Materials, func(m slicedMaterial) bool { return m.MustChoose() && m.Chosen == "" }) {
			f.Problem = v.t("Choose the filaments whose material is not in the file.")
			p.Files = append(p.Files, f)
			continue
		}
		id, err := v.saveSlicedFile(f, sent.Key+at)
		if err != nil {
			e := server.AsError(err)
			if e.Status != 400 && e.Status != 409 && e.Status != 422 {
				return err
			}
			f.Problem = v.message(e.Detail)
			if e.Status == 422 && len(e.Fields) > 0 {
				f.Problem = v.refusal(e.Fields[0].Field, e.Fields[0].Message)
			}
			p.Files = append(p.Files, f)
			continue
		}
		saved, last = saved+1, id
	}
	switch {
	case len(p.Files) > 0:
		return v.slicedPage(422, p)
	case saved == 0:
		p.Form.Problem = v.t("Nothing was chosen, so nothing was saved.")
		return v.slicedPage(422, p)
	case saved == 1:
		v.tell(&notice{Text: v.t("The product is saved.")})
		return v.redirect("/products/" + last)
	}
	v.tell(&notice{Text: v.t("%d product is saved.|%d products are saved.", saved)})
	return v.redirect("/products")
}

// saveSlicedFile creates the product of a file, and returns its id.
func (v *visit) saveSlicedFile(f *slicedFile, key string) (id string, err error) {
	body := map[string]any{"name": f.Name, "file_name": f.FileName, "file_sha256": f.SHA256, "sliced_by": f.SlicedBy,
		"printer_model": f.Printer}
	if f.Minutes != nil {
		body["estimated_print_time_minutes"], body["pieces_per_plate"] = f.Minutes, f.PerPlate
	}
	for name, n := range map[string]num{"nozzle_mm": f.Nozzle, "layer_height_mm": f.Layer} {
		if n != "" {
			body[name] = json.Number(n)
		}
	}
	if len(f.Plates) > 1 {
		delete(body, "estimated_print_time_minutes")
		delete(body, "pieces_per_plate")
		body["plates"] = f.plates(body)
	} else {
		materials := []map[string]any{}
		for _, m := range f.Materials {
			if one := m.body(m.Weight); one != nil {
				materials = append(materials, one)
			}
		}
		body["materials"] = materials
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", server.ErrMalformed.Because(err)
	}
	answer := v.call(http.MethodPost, "/api/v1/products", http.Header{"Idempotency-Key": {key}}, text)
	if err := answer.Err(); err != nil {
		return "", err
	}
	var made product
	if err := json.Unmarshal(answer.Body, &made); err != nil {
		return "", err
	}
	pictures := map[string]string{made.ID: f.Picture}
	for i, one := range made.Plates { // in the order of the file
		if i < len(f.Plates) {
			pictures[one.ID] = f.Plates[i].Picture
		}
	}
	for id, text := range pictures {
		picture, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(picture) == 0 {
			continue
		}
		// The product is saved: a rejected picture is left out.
		v.site.server.CallStream(v.r, v.caller(), http.MethodPut, "/api/v1/products/"+id+"/picture",
			http.Header{"Content-Type": {"application/octet-stream"}}, strings.NewReader(string(picture)))
	}
	return made.ID, nil
}

// body returns the body of the material of a product, with the weight, or nil if it needs none.
func (m slicedMaterial) body(weight num) map[string]any {
	chosen := strings.Split(cmp.Or(m.Chosen, m.key()), "\t")
	if float(weight) == 0 || len(chosen) != 4 {
		return nil
	}
	one := map[string]any{"material_type": chosen[0], "color": chosen[2], "weight_grams": json.Number(weight)}
	if chosen[1] != "" {
		one["material_name"] = chosen[1]
	}
	if d := chosen[3]; d == "1.75" || d == "2.85" {
		one["diameter_mm"] = json.Number(d)
	}
	if m.Profile != "" {
		one["notes"] = m.Profile
	}
	return one
}

// plates returns the plates of the product of a file. The facts about the file are those of the product.
func (f *slicedFile) plates(product map[string]any) (plates []map[string]any) {
	for _, of := range f.Plates {
		one := map[string]any{"plate": of.Plate, "pieces_per_plate": f.PerPlate}
		if of.Name != nil {
			one["name"] = *of.Name
		}
		if of.Minutes != nil {
			one["estimated_print_time_minutes"] = *of.Minutes
		}
		for _, name := range []string{"file_name", "file_sha256", "sliced_by", "printer_model", "nozzle_mm",
			"layer_height_mm"} {
			if product[name] != nil {
				one[name] = product[name]
			}
		}
		materials := []map[string]any{}
		for _, m := range of.Materials {
			if m.Filament < 1 || m.Filament > len(f.Materials) {
				continue
			}
			if material := f.Materials[m.Filament-1].body(m.Weight); material != nil {
				materials = append(materials, material)
			}
		}
		one["materials"] = materials
		plates = append(plates, one)
	}
	return plates
}

func showPicture(v *visit) error {
	query := url.Values{}
	for _, name := range []string{"version", "size"} {
		if s := v.r.URL.Query().Get(name); s != "" {
			query.Set(name, s)
		}
	}
	v.site.server.Forward(v.w, v.r, v.caller(), "/api/v1/products/"+v.r.PathValue("id")+"/picture?"+query.Encode())
	return nil
}

// setPicture sets the picture of a product to the file in the form.
func setPicture(v *visit) error {
	f := v.newForm()
	parts, err := v.r.MultipartReader()
	if err != nil {
		return v.productPage(422, "picture", f)
	}
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			f.Errors["file"] = v.t("Choose a file.")
			return v.productPage(422, "picture", f)
		}
		if err != nil {
			return formError(err)
		}
		if part.FormName() != "file" || part.FileName() == "" {
			continue
		}
		answer := v.site.server.CallStream(v.r, v.caller(), http.MethodPut,
			"/api/v1/products/"+v.r.PathValue("id")+"/picture",
			http.Header{"Content-Type": {"application/octet-stream"}}, part)
		if err := answer.Err(); err != nil {
			e := server.AsError(err)
			if e.Status != 422 && e.Status != 413 {
				return err
			}
			f.Errors["file"] = v.message(e.Detail)
			if len(e.Fields) > 0 {
				f.Errors["file"] = v.language.Sentence(v.t("The file %s|and a problem", v.Message(e.Fields[0].Message)))
			}
			return v.productPage(422, "picture", f)
		}
		v.tell(&notice{Text: v.t("The picture is saved.")})
		return v.redirect(v.here("/products"))
	}
}
