package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// runFile is what the API has read from a file for a run.
type runFile struct {
	ProductID string                  `json:"product_id"`
	Quantity  int64                   `json:"quantity"`
	Hours     num                     `json:"estimated_print_time_hours"`
	FileName  string                  `json:"file_name"`
	Materials []runFileMaterial       `json:"materials"`
	Warnings  []struct{ Text string } `json:"warnings"`
}

type runFileMaterial struct {
	Spool  *int64 `json:"spool_number"`
	Weight num    `json:"weight_grams"`
}

// readRunFile fills the form of a new run from the sliced file in the form.
func readRunFile(v *visit) error {
	f := v.newRunForm()
	parts, err := v.r.MultipartReader()
	if err != nil {
		return v.newRun(422, f, nil)
	}
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			f.Errors["file"] = v.t("Choose a file.")
			return v.newRun(422, f, nil)
		}
		if err != nil {
			return formError(err)
		}
		if part.FormName() == "plate" {
			text, err := io.ReadAll(io.LimitReader(part, 100))
			if err != nil {
				return formError(err)
			}
			f.Values.Set("plate", strings.TrimSpace(string(text)))
			continue
		}
		if part.FormName() != "file" || part.FileName() == "" {
			continue
		}
		query := url.Values{"filename": {sentName(part)}, "dry_run": {"true"}}
		if n := f.Values.Get("plate"); n != "" {
			query.Set("plate", n)
		}
		if id := f.Values.Get("items[0].product_id"); id != "" {
			query.Set("product_id", id)
		}
		answer := v.site.server.CallStream(v.r, v.caller(), http.MethodPost,
			"/api/v1/production-runs/from-file?"+query.Encode(),
			http.Header{"Content-Type": {"application/octet-stream"}}, part)
		if err := answer.Err(); err != nil {
			if f.Errors["file"], err = fileProblem(v, err); err != nil {
				return err
			}
			return v.newRun(422, f, nil)
		}
		var read runFile
		if err := json.Unmarshal(answer.Body, &read); err != nil {
			return err
		}
		f.Values.Set("estimated_print_time_hours", string(read.Hours))
		f.Values.Set("notes", read.FileName)
		if read.ProductID != "" {
			f.Values.Set("items[0].product_id", read.ProductID)
			f.Values.Set("items[0].quantity", strconv.FormatInt(read.Quantity, 10))
		}
		n := 0
		for _, m := range read.Materials {
			if m.Spool != nil {
				f.Values.Set(fmt.Sprintf("materials[%d].spool_number", n), strconv.FormatInt(*m.Spool, 10))
				f.Values.Set(fmt.Sprintf("materials[%d].estimated_weight_grams", n), string(m.Weight))
				n++
			}
		}
		return v.newRun(200, f, read.Warnings)
	}
}
