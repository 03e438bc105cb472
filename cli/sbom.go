package cli

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"strings"

	"spoolwright/server"
)

// sbom returns the software bill of materials of a build, a CycloneDX 1.6 document in JSON: Go's standard library, the
// modules of the build, and the JavaScript bundles of the documentation pages. The same build has the same document.
func sbom(info *debug.BuildInfo) []byte {
	type hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	type license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	type component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Hashes   []hash    `json:"hashes,omitempty"`
		Licenses []license `json:"licenses,omitempty"`
		PURL     string    `json:"purl"`
	}
	type dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
	licensed := func(id string) []license {
		var l license
		l.License.ID = id
		return []license{l}
	}
	at := func(name, version string) component {
		purl := "pkg:golang/" + name + "@" + version
		return component{Type: "library", Ref: purl, Name: name, Version: version, PURL: purl}
	}

	program := at(info.Main.Path, Version)
	program.Type, program.Licenses = "application", licensed("Apache-2.0")
	components := []component{at("std", strings.TrimPrefix(info.GoVersion, "go"))}
	refs := map[string]string{}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := at(m.Path, m.Version)
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		refs[m.Path] = c.Ref
		components = append(components, c)
	}
	dependencies := []dependency{{Ref: program.Ref}}
	for _, c := range components {
		dependencies[0].DependsOn = append(dependencies[0].DependsOn, c.Ref)
	}
	for _, b := range server.Bundles {
		purl := "pkg:npm/" + b.Name + "@" + b.Version
		sum := sha256.Sum256(b.Body())
		hashes := []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
		components = append(components,
			component{"library", purl, b.Name, b.Version, hashes, licensed(b.License), purl})
		dependencies = append(dependencies, dependency{refs[b.Module], []string{purl}})
	}
	out, err := json.MarshalIndent(map[string]any{
		"$schema":   "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": program},
		"components": components, "dependencies": dependencies,
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}
