package cli

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"slices"
	"strings"

	"spoolwright/server/docs"
)

// directModules are the direct requirements in go.mod.
var directModules = []string{
	"github.com/coder/websocket", "github.com/golang-jwt/jwt/v5", "github.com/jackc/pgx/v5", "golang.org/x/time",
	"rsc.io/qr",
}

// BillOfMaterials returns the software bill of materials of a build, a CycloneDX 1.6 document in JSON. It lists Go's
// standard library, the modules of the build, the JavaScript bundles of the documentation pages, and the known
// packages in these bundles. The document depends only on the build.
func BillOfMaterials(info *debug.BuildInfo) []byte {
	type object = map[string]any
	component := func(kind, purl, name, version string) object {
		return object{"type": kind, "bom-ref": purl, "purl": purl, "name": name, "version": version}
	}
	licenses := func(id string) []object {
		if strings.Contains(id, " ") {
			return []object{{"expression": id}}
		}
		return []object{{"license": object{"id": id}}}
	}
	hashes := func(sum []byte) []object { return []object{{"alg": "SHA-256", "content": hex.EncodeToString(sum)}} }
	purl := func(name, version string) string { return "pkg:golang/" + name + "@" + version }

	program := component("application", purl(info.Main.Path, Version), info.Main.Path, Version)
	program["licenses"] = licenses("Apache-2.0")
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []object{component("library", purl("std", goVersion), "std", goVersion)}
	refs := map[string]any{} // by the path of the module
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component("library", purl(m.Path, m.Version), m.Path, m.Version)
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			c["hashes"] = hashes(sum)
		}
		refs[m.Path] = c["bom-ref"]
		components = append(components, c)
	}
	direct := []any{components[0]["bom-ref"]}
	for _, path := range directModules {
		direct = append(direct, refs[path])
	}
	var dependencies []object
	for _, b := range docs.Bundles {
		c := component("library", "pkg:npm/"+b.Name+"@"+b.Version, b.Name, b.Version)
		sum := sha256.Sum256(b.Body())
		c["hashes"], c["licenses"] = hashes(sum[:]), licenses(b.License)
		components = append(components, c)
		direct = append(direct, c["bom-ref"])
		var contained []any
		for _, p := range b.Contains {
			inner := component("library", "pkg:npm/"+p.Name+"@"+p.Version, p.Name, p.Version)
			inner["licenses"] = licenses(p.License)
			if !slices.ContainsFunc(components, func(c object) bool { return c["bom-ref"] == inner["bom-ref"] }) {
				components = append(components, inner) // two bundles can have the same package
			}
			contained = append(contained, inner["bom-ref"])
		}
		dependencies = append(dependencies, object{"ref": c["bom-ref"], "dependsOn": contained})
	}
	dependencies = append(dependencies, object{"ref": program["bom-ref"], "dependsOn": direct})
	out, err := json.MarshalIndent(object{
		"$schema":   "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   object{"component": program},
		"components": components, "dependencies": dependencies,
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}
