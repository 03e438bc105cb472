package language_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template/parse"

	"spoolwright/value/language"
)

// key is a text of the program and the first file that has it.
type key struct {
	text language.Text
	file string
}

// keys returns all texts of the program: the constants of the type Text, and those of the templates.
func keys(t *testing.T) (all []key) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,Standard", "spoolwright")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
		Standard                bool
	}
	exports := map[string]string{}
	var own []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath == "spoolwright" || strings.HasPrefix(p.ImportPath, "spoolwright/") {
			own = append(own, p)
		}
	}
	root := own[len(own)-1].Dir // the main package is listed last
	slices.SortFunc(own, func(a, b listed) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	seen := map[language.Text]bool{}
	add := func(text, path string) {
		name, _ := filepath.Rel(root, path)
		if k := language.Text(text); !seen[k] && strings.ContainsFunc(verb.ReplaceAllString(text, ""), isLetter) {
			seen[k] = true
			all = append(all, key{k, filepath.ToSlash(name)})
		}
	}
	for _, p := range own {
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		conf := types.Config{Importer: imports}
		if _, err := conf.Check(p.ImportPath, files, parsed, info); err != nil {
			t.Fatal(err)
		}
		for _, f := range parsed {
			path := files.Position(f.Pos()).Filename
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					checkCall(t, files, info, call)
				}
				e, ok := n.(ast.Expr)
				if !ok {
					return true
				}
				v := info.Types[e]
				if v.Value == nil || v.Value.Kind() != constant.String {
					return true
				}
				if text := constant.StringVal(v.Value); isText(v.Type) {
					add(text, path)
				} else if p.ImportPath == "spoolwright/web" {
					for setting := range strings.SplitSeq(text, ";") {
						add(shown(setting), path)
					}
				}
				return false
			})
		}
	}
	templates, err := filepath.Glob(filepath.Join(root, "web", "templates", "*.html"))
	if err != nil || len(templates) == 0 {
		t.Fatal("no templates: ", err)
	}
	for _, path := range templates {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		trees := map[string]*parse.Tree{}
		tree := parse.New(path)
		tree.Mode = parse.SkipFuncCheck
		if _, err := tree.Parse(string(b), "", "", trees); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(mapsKeys(trees)) {
			walk(trees[name].Root, func(c *parse.CommandNode) {
				for i, text := range textsOf(c) {
					if verbs := len(verbsOf(text)); i == 0 && isCall(c, "t") && verbs != len(c.Args)-2 {
						t.Errorf("%s: t %q has %d arguments, not %d", filepath.Base(path), text, len(c.Args)-2, verbs)
					}
					add(text, path)
				}
			})
		}
	}
	return all
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func mapsKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func isText(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == "Text" && named.Obj().Pkg() != nil &&
		named.Obj().Pkg().Path() == "spoolwright/value/language"
}

// shown returns the text of a setting of an input that people see, or "".
func shown(setting string) string {
	for _, name := range []string{"hint=", "none=", "unit="} {
		if text, ok := strings.CutPrefix(setting, name); ok {
			return text
		}
	}
	return ""
}

var verb = regexp.MustCompile(`%(\[[0-9]\])?[a-z]`)

// verbsOf returns the verbs of the first form of a text.
func verbsOf(text string) []string {
	if strings.Contains(text, "|") {
		text, _, _ = strings.Cut(text, "|")
	}
	return verb.FindAllString(text, -1)
}

// checkCall checks the number of arguments of a call whose last parameters are a Text and its arguments.
func checkCall(t *testing.T, files *token.FileSet, info *types.Info, call *ast.CallExpr) {
	signature, ok := info.Types[call.Fun].Type.(*types.Signature)
	if !ok || !signature.Variadic() || call.Ellipsis.IsValid() || signature.Params().Len() < 2 {
		return
	}
	n := signature.Params().Len()
	format := info.Types[call.Args[min(n-2, len(call.Args)-1)]]
	if len(call.Args) < n-1 || !isText(signature.Params().At(n-2).Type()) || format.Value == nil ||
		!types.Identical(signature.Params().At(n-1).Type(), types.NewSlice(types.Universe.Lookup("any").Type())) {
		return
	}
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	case *ast.Ident:
		name = fun.Name
	}
	if !slices.Contains([]string{"Text", "t", "Invalid", "BadRequest", "Conflict", "Add"}, name) {
		return // it may add arguments of its own
	}
	text := constant.StringVal(format.Value)
	if args := len(call.Args) - n + 1; args != len(verbsOf(text)) && (args > 0 || strings.Contains(text, "%s")) {
		t.Errorf("%s: %q has %d arguments", files.Position(call.Pos()), text, args)
	}
}

// textsOf returns the texts of a call of t or input in a template.
func textsOf(c *parse.CommandNode) (texts []string) {
	text := func(i int) string {
		if len(c.Args) > i {
			if s, ok := c.Args[i].(*parse.StringNode); ok {
				return s.Text
			}
		}
		return ""
	}
	switch {
	case isCall(c, "t"):
		if s := text(1); s != "" {
			if len(c.Args) == 2 {
				s = strings.Join(strings.Fields(s), " ")
			}
			return []string{s}
		}
	case isCall(c, "input"):
		texts = append(texts, text(3))
		for i := 4; i < len(c.Args); i++ {
			texts = append(texts, shown(text(i)))
		}
	}
	return texts
}

func isCall(c *parse.CommandNode, name string) bool {
	id, ok := c.Args[0].(*parse.IdentifierNode)
	return ok && id.Ident == name
}

// walk calls visit for each command in a node.
func walk(node parse.Node, visit func(*parse.CommandNode)) {
	pipe := func(p *parse.PipeNode) {
		if p != nil {
			walk(p, visit)
		}
	}
	list := func(l *parse.ListNode) {
		if l != nil {
			walk(l, visit)
		}
	}
	switch node := node.(type) {
	case *parse.ListNode:
		for _, n := range node.Nodes {
			walk(n, visit)
		}
	case *parse.ActionNode:
		pipe(node.Pipe)
	case *parse.IfNode:
		pipe(node.Pipe)
		list(node.List)
		list(node.ElseList)
	case *parse.WithNode:
		pipe(node.Pipe)
		list(node.List)
		list(node.ElseList)
	case *parse.RangeNode:
		pipe(node.Pipe)
		list(node.List)
		list(node.ElseList)
	case *parse.TemplateNode:
		pipe(node.Pipe)
	case *parse.PipeNode:
		for _, c := range node.Cmds {
			visit(c)
			for _, arg := range c.Args {
				walk(arg, visit)
			}
		}
	case *parse.ChainNode:
		walk(node.Node, visit)
	}
}

// entry returns the lines of a text and its translation in a file.
func entry(text language.Text, translated string) string {
	return escape(string(text)) + "\n\t" + escape(translated) + "\n"
}

// escape returns a text as one line of a file.
func escape(text string) string { return strings.ReplaceAll(text, "\n", `\n`) }
