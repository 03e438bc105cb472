package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/value/language"
)

// Lock returns statements that lock a resource, so that other transactions cannot change the resource until this
// transaction ends. The ids are the parameters of the resource's path.
type Lock func(ids ...string) []*db.Stmt

// LockRow returns the Lock of a resource that is a row of a table.
func LockRow(table string) Lock {
	return func(ids ...string) []*db.Stmt {
		return []*db.Stmt{db.SQL(`select id from `+table+` where id = $1 for no key update`, ids[0])}
	}
}

// NoLock is the Lock of a resource at a path that has no PATCH and no DELETE route.
func NoLock(...string) []*db.Stmt { return nil }

// Versioned returns a copy of r, the GET route of a resource, whose responses have an ETag. The responses of the route
// that creates such resources have an ETag too, unless they contain a secret. The PUT, PATCH and DELETE routes of the
// same path then accept If-Match. In the transaction of the write, they lock the resource, read it, and compare its ETag
// with If-Match.
func (r Route) Versioned(lock Lock) Route {
	r.Lock = lock
	return r
}

// CreatesVersioned reports whether the route creates a versioned resource and returns it without a secret, as the GET
// route of the resource does. Versioned reports whether a path has a versioned GET route.
func (r Route) CreatesVersioned(versioned func(path string) bool) bool {
	item := r.Endpoint.Out.Item
	return r.Method() == http.MethodPost && item != nil && versioned(r.Path()+"/{id}") &&
		!slices.ContainsFunc(SchemaOfType(item).Fields, func(f *Field) bool { return f.Secret })
}

// ErrPrecondition is the error of an If-Match that does not name the current version.
var ErrPrecondition = &Error{Status: 412, Code: "PRECONDITION_FAILED",
	Detail: language.Sprintf(
		"The resource has changed: its ETag is not in If-Match. Get it again, and repeat the change")}

// etag returns the strong entity tag of a representation. All instances of one version of the program compute the same
// tag.
func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// entityTags returns the tags of an If-Match or If-None-Match header. A "*" is returned like a tag.
func entityTags(r *http.Request, header string) (tags []string) {
	for tag := range strings.SplitSeq(strings.Join(r.Header.Values(header), ","), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// isKnown reports whether the If-None-Match of a request contains the tag or "*".
func isKnown(r *http.Request, tag string) bool {
	return slices.ContainsFunc(entityTags(r, "If-None-Match"), func(known string) bool {
		return known == "*" || strings.TrimPrefix(known, "W/") == tag
	})
}

// ifMatch runs a write if If-Match contains "*" or the tag of what the GET operation of the resource returns now.
// Otherwise the error is a 412. If the resource does not exist, the error is that of the GET operation.
func (o *operation) ifMatch(write responder) responder {
	return func(ctx context.Context, c call) (response, error) {
		if c.known == nil || o.route.Lock != nil || len(c.tags) == 0 {
			return write(ctx, c)
		}
		return c.known.writeIfMatch(ctx, c, write)
	}
}

func (o *operation) writeIfMatch(ctx context.Context, c call, write responder) (answer response, err error) {
	ids := c.ids.values[:len(o.names)] // o is the operation of the same path, or of one above it
	get, err := o.route.Endpoint.prepare(ctx, call{ids: pathIDs{o.names, ids}})
	if err != nil {
		return answer, err
	}
	err = o.s.DB.Tx(ctx, func(ctx context.Context) error {
		if err := o.s.DB.Write(ctx, o.route.Lock(ids...)...); err != nil {
			return err
		}
		body, _, err := get(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(c.tags, "*") && !slices.Contains(c.tags, etag(body)) {
			return ErrPrecondition
		}
		answer, err = write(ctx, c)
		return err
	})
	return answer, err
}
