package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"spoolwright/cli"
)

// file is a file in an archive. If its name ends with a slash, it is a folder.
type file struct {
	name string
	body []byte
	mode fs.FileMode
}

// tarball returns an archive of the files and their folders, sorted by name. All files belong to root and have the
// time modified.
func tarball(files []file, modified time.Time) []byte {
	all := map[string]file{}
	for _, f := range files {
		all[f.name] = f
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir+"/"]; !ok {
				all[dir+"/"] = file{dir + "/", nil, 0o755}
			}
		}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	w := tar.NewWriter(&out) // a bytes.Buffer returns no errors
	for _, name := range names {
		f := all[name]
		h := &tar.Header{Name: name, Mode: int64(f.mode), Size: int64(len(f.body)), ModTime: modified,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err) // a name is too long
		}
		w.Write(f.body)
	}
	w.Close()
	return out.Bytes()
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

// image is the program for the platform of an image.
type image struct {
	target  target
	program []byte
}

// layout returns an archive with an OCI image layout. It has an image for each platform, with only the program, the
// certificate authorities and /tmp. The program runs without privileges, as with deploy/Dockerfile.
func layout(images []image, certificates []byte, created time.Time) []byte {
	type object = map[string]any
	files := []file{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644}}
	blob := func(mediaType string, b []byte) object {
		sum := fmt.Sprintf("%x", sha256.Sum256(b))
		files = append(files, file{"blobs/sha256/" + sum, b, 0o644})
		return object{"mediaType": mediaType, "digest": "sha256:" + sum, "size": len(b)}
	}
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return b
	}
	const vendor = "application/vnd.oci.image."
	base := tarball([]file{
		{"etc/ssl/certs/ca-certificates.crt", certificates, 0o644}, {"tmp/", nil, 0o1777},
	}, created)
	annotations := object{"org.opencontainers.image.version": cli.Version,
		"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.title": "Spoolwright",
		"org.opencontainers.image.created": created.Format(time.RFC3339)}
	var manifests []object
	for _, i := range images {
		var layers []object
		var ids []string
		for _, layer := range [][]byte{base, tarball([]file{{"spoolwright", i.program, 0o755}}, created)} {
			ids = append(ids, fmt.Sprintf("sha256:%x", sha256.Sum256(layer)))
			layers = append(layers, blob(vendor+"layer.v1.tar+gzip", compress(layer)))
		}
		platform := object{"os": i.target.os, "architecture": i.target.arch}
		if i.target.arm != "" {
			platform["variant"] = "v" + i.target.arm
		}
		config := object{
			"created": created.Format(time.RFC3339),
			"config": object{
				"User": "65532:65532", "Entrypoint": []string{"/spoolwright"},
				"Env":          []string{"LISTEN_ADDR=0.0.0.0:8000", "GOMEMLIMIT=768MiB"},
				"ExposedPorts": object{"8000/tcp": object{}},
				"Healthcheck":  object{"Test": []string{"CMD", "/spoolwright", "health"}, "StartPeriod": 30 * time.Second},
				"Labels":       annotations,
			},
			"rootfs": object{"type": "layers", "diff_ids": ids},
			"history": []object{{"created_by": "certificate authorities and /tmp"},
				{"created_by": "the program"}},
		}
		for k, v := range platform {
			config[k] = v
		}
		m := blob(vendor+"manifest.v1+json", encode(object{
			"schemaVersion": 2, "mediaType": vendor + "manifest.v1+json",
			"config": blob(vendor+"config.v1+json", encode(config)), "layers": layers, "annotations": annotations,
		}))
		m["platform"] = platform
		manifests = append(manifests, m)
	}
	index := blob(vendor+"index.v1+json", encode(object{
		"schemaVersion": 2, "mediaType": vendor + "index.v1+json", "manifests": manifests, "annotations": annotations,
	}))
	index["annotations"] = object{"org.opencontainers.image.ref.name": cli.Version}
	files = append(files, file{"index.json", encode(object{
		"schemaVersion": 2, "mediaType": vendor + "index.v1+json", "manifests": []object{index},
	}), 0o644})
	return tarball(files, created)
}
