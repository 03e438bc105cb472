package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// opposite has the comparison that is true when another one is false.
var opposite = map[token.Token]token.Token{token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ,
	token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR}

// codeOf returns the sabotages of the Go code in a file: a comparison is replaced by its opposite, the return of an
// error by none, a statement that locks rows is left out of a transaction, and a mutex is not locked. The conditions of
// loops are not changed, since many would not end.
func codeOf(file, text string) (all []sabotage, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	// edit adds a sabotage that replaces the texts between pairs of positions.
	edit := func(what, replacement string, positions ...token.Pos) *sabotage {
		begin, end, line := at(positions[0]), at(positions[1]), fset.Position(positions[0]).Line
		changed := text
		for pair := range slices.Chunk(positions, 2) {
			changed = changed[:at(pair[0])+len(changed)-len(text)] + replacement + changed[at(pair[1])+len(changed)-len(text):]
		}
		s := conditionIn(file, text, begin, end)
		s.new, s.name = changed, fmt.Sprintf("%s:%d: %s%s", file, line, what, s.cut)
		all = append(all, s)
		return &all[len(all)-1]
	}
	loops := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.ForStmt:
			loops[n.Cond] = true
		case *ast.IfStmt:
			if isError(n.Cond) && returns(n.Body) {
				edit("no return if ", "false && "+text[at(n.Cond.Pos()):at(n.Cond.End())], n.Cond.Pos(), n.Cond.End())
				loops[n.Cond] = true // which needs no second sabotage
			}
		case *ast.BinaryExpr:
			if op, ok := opposite[n.Op]; ok && !loops[n] {
				from, to := n.X.End(), n.Y.Pos()
				s := edit("", " "+op.String()+" ", from, to)
				s.cut = strings.TrimSpace(text[at(n.Pos()):at(n.End())])
				s.name = fmt.Sprintf("%s:%d: not %s", file, fset.Position(n.Pos()).Line, s.cut)
			}
			return !loops[n]
		case *ast.CallExpr:
			for i, arg := range n.Args {
				if call, ok := arg.(*ast.CallExpr); ok && strings.HasPrefix(strings.ToLower(nameOf(call.Fun)), "lock") {
					end := arg.End()
					if i+1 < len(n.Args) {
						end = n.Args[i+1].Pos()
					}
					edit("without ", "", arg.Pos(), end)
				}
			}
		case *ast.FuncDecl:
			for mutex, calls := range mutexes(n, text, at) {
				edit("without the mutex "+mutex+": ", "", calls...).race = true
			}
		}
		return true
	})
	return all, nil
}

// returns reports whether a block ends with a return.
func returns(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	_, ok := b.List[len(b.List)-1].(*ast.ReturnStmt)
	return ok
}

// isError reports whether an expression compares an error with nil.
func isError(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && b.Op == token.NEQ && nameOf(b.Y) == "nil" && strings.HasPrefix(strings.ToLower(nameOf(b.X)), "err")
}

// nameOf returns the name of a function or variable, without its package or receiver.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// mutexes returns the begins and ends of the statements of a function that lock and unlock each mutex.
func mutexes(f *ast.FuncDecl, text string, at func(token.Pos) int) map[string][]token.Pos {
	found := map[string][]token.Pos{}
	ast.Inspect(f, func(n ast.Node) bool {
		var call ast.Expr
		switch n := n.(type) {
		case *ast.ExprStmt:
			call = n.X
		case *ast.DeferStmt:
			call = n.Call
		}
		if c, ok := call.(*ast.CallExpr); ok && len(c.Args) == 0 {
			s, ok := c.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, s.Sel.Name) {
				name := text[at(s.X.Pos()):at(s.X.End())]
				found[name] = append(found[name], n.Pos(), n.End())
			}
		}
		return true
	})
	return found
}

// conditionIn returns the sabotage of what is between two indexes of a file, without what replaces it.
func conditionIn(file, text string, begin, end int) sabotage {
	pkg, tests := filepath.Dir(file), "."
	for _, name := range []string{pkg, file} {
		if other, ok := testedBy[name]; ok {
			pkg, tests = other.pkg, other.tests
		}
	}
	from := strings.LastIndexByte(text[:begin], '\n') + 1
	full, _, _ := strings.Cut(text[from:], "\n")
	return sabotage{file: file, old: text, pkg: "./" + pkg, tests: tests, line: full,
		cut: strings.TrimSpace(text[begin:end]), begin: begin, end: end}
}
