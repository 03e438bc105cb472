package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"strings"

	"github.com/mvrilo/go-redoc"
	swaggerui "github.com/swaggest/swgui/v5/static"
)

// bundles are the JavaScript programs that the documentation pages load; they come inside of Go modules.
var bundles = []struct {
	name, version, license, module string
	body                           func() []byte
}{
	{"swagger-ui-dist", "5.32.6", "Apache-2.0", "github.com/swaggest/swgui", func() []byte { return decompress(mustRead(swaggerui.FS, "swagger-ui-bundle.js.gz")) }},
	{"redoc", "2.0.0-rc.59", "MIT", "github.com/mvrilo/go-redoc", func() []byte { return []byte(redoc.JavaScript) }},
}

// SBOM returns the software bill of materials of the running program, a CycloneDX 1.6 document in JSON: Go's standard
// library, the modules that the build was made of, and the JavaScript bundles. The same build has the same document.
func SBOM(info *debug.BuildInfo, version string) []byte {
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

	program := at(info.Main.Path, version)
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
	for _, b := range bundles {
		purl := "pkg:npm/" + b.name + "@" + b.version
		sum := sha256.Sum256(b.body())
		components = append(components, component{"library", purl, b.name, b.version, []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, licensed(b.license), purl})
		dependencies = append(dependencies, dependency{refs[b.module], []string{purl}})
	}
	out, err := json.MarshalIndent(map[string]any{
		"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{"component": program}, "components": components, "dependencies": dependencies,
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}
