package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"spoolwright/cli"
)

var at = time.Unix(1_700_000_000, 0).UTC()

// entries returns the files of an archive.
func entries(t *testing.T, b []byte) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: time %s, owner %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		h.PAXRecords = map[string]string{"body": string(body)}
		all[h.Name] = h
	}
}

func TestTarball(t *testing.T) {
	files := []file{{"b/c/d", []byte("text"), 0o644}, {"b/a", nil, 0o755}, {"tmp/", nil, 0o1777}}
	b := tarball(files, at)
	slices.Reverse(files)
	if !bytes.Equal(b, tarball(files, at)) || !bytes.Equal(compress(b), compress(b)) {
		t.Error("the archive depends on the order of the files")
	}
	all := entries(t, b)
	want := map[string]int64{"b/": 0o755, "b/c/": 0o755, "b/c/d": 0o644, "b/a": 0o755, "tmp/": 0o1777}
	got := map[string]int64{}
	for name, h := range all {
		got[name] = h.Mode
	}
	if !maps.Equal(got, want) || all["b/c/d"].PAXRecords["body"] != "text" {
		t.Errorf("the archive has %v, want %v", got, want)
	}
}

// TestLayout follows the descriptors from the index to each layer, and compares sizes and digests.
func TestLayout(t *testing.T) {
	images := []image{{targets[0], []byte("amd64")}, {targets[2], []byte("arm")}}
	b := layout(images, []byte("authorities"), at)
	if !bytes.Equal(b, layout(images, []byte("authorities"), at)) {
		t.Error("two layouts differ")
	}
	all := entries(t, b)
	type descriptor struct {
		Digest   string
		Size     int
		Platform struct{ OS, Architecture, Variant string }
	}
	read := func(d descriptor, into any) []byte {
		name := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
		if all[name] == nil {
			t.Fatalf("%s is missing", name)
		}
		body := all[name].PAXRecords["body"]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))); sum != d.Digest || len(body) != d.Size {
			t.Errorf("%s has the digest %s and %d bytes, want %d", name, sum, len(body), d.Size)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(body), into); err != nil {
				t.Fatal(err)
			}
		}
		return []byte(body)
	}
	type index struct{ Manifests []descriptor }
	var top, platforms index
	if err := json.Unmarshal([]byte(all["index.json"].PAXRecords["body"]), &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %v, %v", top, err)
	}
	read(top.Manifests[0], &platforms)
	if len(platforms.Manifests) != 2 || platforms.Manifests[1].Platform.Variant != "v6" {
		t.Fatalf("the platforms are %+v", platforms.Manifests)
	}
	for i, m := range platforms.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		read(m, &manifest)
		var config struct {
			Architecture string
			Config       struct {
				User                    string
				Entrypoint, Healthcheck any
			}
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		read(manifest.Config, &config)
		if config.Architecture != images[i].target.arch || config.Config.User != "65532:65532" ||
			config.Config.Healthcheck == nil {
			t.Errorf("the configuration is %+v", config)
		}
		files := map[string]*tar.Header{}
		for n, layer := range manifest.Layers {
			z, err := gzip.NewReader(bytes.NewReader(read(layer, nil)))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if id := fmt.Sprintf("sha256:%x", sha256.Sum256(plain)); id != config.RootFS.DiffIDs[n] {
				t.Errorf("layer %d has the id %s, want %s", n, id, config.RootFS.DiffIDs[n])
			}
			maps.Copy(files, entries(t, plain))
		}
		program := files["spoolwright"]
		if program == nil || program.Mode != 0o755 || program.PAXRecords["body"] != string(images[i].program) {
			t.Errorf("the program is %+v", program)
		}
		if tmp := files["tmp/"]; tmp == nil || tmp.Mode != 0o1777 {
			t.Errorf("/tmp is %+v", tmp)
		}
	}
}

// TestSPDX checks that the SPDX document has the components and the dependencies of the CycloneDX one.
func TestSPDX(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build information")
	}
	info.Deps = []*debug.Module{{Path: "example.com/a/b", Version: "v1.2.3", Sum: "h1:" + strings.Repeat("A", 43) + "="}}
	for _, path := range []string{"github.com/coder/websocket", "github.com/golang-jwt/jwt/v5", "github.com/jackc/pgx/v5",
		"golang.org/x/time", "rsc.io/qr"} {
		info.Deps = append(info.Deps, &debug.Module{Path: path, Version: "v1.0.0"})
	}
	b, err := toSPDX(cli.BillOfMaterials(info), at)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Packages []struct {
			SPDXID, Name string
			Checksums    []struct{ ChecksumValue string }
		}
		Relationships []struct{ SPDXElementID, RelatedSPDXElement string }
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range doc.Packages {
		if ids[p.SPDXID] {
			t.Errorf("%s occurs twice", p.SPDXID)
		}
		ids[p.SPDXID] = true
		if p.Name == "example.com/a/b" && (len(p.Checksums) != 1 ||
			p.Checksums[0].ChecksumValue != strings.Repeat("0", 64)) {
			t.Errorf("the checksums of %s are %v", p.Name, p.Checksums)
		}
	}
	if !ids["SPDXRef-golang-example.com-a-b-v1.2.3"] || !ids["SPDXRef-npm-redoc-2.5.4"] {
		t.Errorf("the packages are %v", ids)
	}
	for _, r := range doc.Relationships {
		if !ids[r.SPDXElementID] || !ids[r.RelatedSPDXElement] {
			t.Errorf("the relationship %+v has an unknown package", r)
		}
	}
}

func TestMissingTools(t *testing.T) {
	t.Setenv("PYTHON_CLIENTS", t.TempDir())
	t.Setenv("CLIENT_TOOLS", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	err := (&release{certificates: "/nonexistent"}).missing()
	for _, want := range []string{"flit_core", "PYTHON_CLIENTS", "tsc", "npm", "/nonexistent", "-certificates"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not name %s", err, want)
		}
	}
}
