package spoolman

import (
	"cmp"
	"net/http"
	"strings"

	"spoolwright/server"
)

type handler func(q request) error

// routes returns the handlers of all paths below Prefix. Each path may end with a slash.
func routes() *http.ServeMux {
	mux := http.NewServeMux()
	route := func(pattern string, handle handler) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+Prefix+path, handle)
		mux.Handle(method+" "+Prefix+path+"/{$}", handle)
	}
	mux.Handle(Prefix, handler(request.notServed))
	mux.Handle("GET "+Prefix+"{$}", watched("", request.notServed))
	for name := range resources {
		route("GET "+name, watched(name, shared(func(q request) error { return q.list(name) })))
		route("POST "+name, func(q request) error { return q.create(name) })
		route("GET "+name+"/{id}", watched(name, withID(func(q request, id int64) error { return q.get(name, id) })))
		route("PATCH "+name+"/{id}", withID(func(q request, id int64) error { return q.edit(name, id) }))
		route("DELETE "+name+"/{id}", withID(func(q request, id int64) error { return q.remove(name, id) }))
	}
	route("PUT spool/{id}/use", withID(request.use))
	route("PUT spool/{id}/measure", withID(request.measure))
	route("GET spool/group", shared(request.groups))
	route("PATCH spool/field/{field}", request.renameValue)
	route("GET search", shared(request.search))

	route("GET location", shared(request.locations))
	route("PATCH location/{name}", request.renameLocation)
	route("GET lot-number", shared(request.lotNumbers))
	route("GET material", shared(request.materials))
	route("GET article-number", shared(request.articleNumbers))

	route("GET field/{entity}", request.fields)
	route("POST field/{entity}/{key}", request.defineField)
	route("DELETE field/{entity}/{key}", request.removeField)
	route("GET field/{entity}/{key}/values", shared(request.fieldValues))
	route("GET setting", watched("setting", request.settings))
	route("GET setting/{key}", watched("setting", request.setting))
	route("POST setting/{key}", request.changeSetting)

	route("GET export/{items}", request.export)
	route("GET external/filament", shared(request.externalFilaments))
	route("GET external/filament/search", shared(request.searchExternal))
	route("GET external/material", shared(request.externalMaterials))
	route("GET info", request.info)
	route("GET health", request.health)
	route("POST backup", request.backup)
	return mux
}

func (q request) notServed() error { return errMethod }

// withID returns a handler that parses the id in the path and passes it to handle.
func withID(handle func(q request, id int64) error) handler {
	return func(q request) error {
		id, err := parseID(q.r.PathValue("id"))
		if err != nil {
			return err
		}
		return handle(q, id)
	}
}

// shared returns a handler whose answer may be large. It first waits for a share of the memory.
func shared(handle handler) handler {
	return func(q request) error {
		if err := server.KeepShare(q.r); err != nil {
			return err
		}
		return handle(q)
	}
}

// watched returns a handler that opens a WebSocket if the request asks for a WebSocket, and calls handle otherwise.
// The WebSocket sends the changes of the topic or, if the path has an id or a key, of this item of the topic.
func watched(topic string, handle handler) handler {
	return func(q request) error {
		if isUpgrade(q.r) {
			return q.upgrade(topic, cmp.Or(q.r.PathValue("id"), q.r.PathValue("key")))
		}
		return handle(q)
	}
}

// exchange is a ResponseWriter. It passes the request through the mux to the handler, and the handler's error back.
type exchange struct {
	http.ResponseWriter
	request request
	err     error
}

func (handle handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	x.request.r = r // r has the path values
	x.err = handle(x.request)
}
