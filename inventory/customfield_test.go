package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

const customFields = "/api/v1/custom-fields"

// Custom fields are defined, and values that conform to them are stored, filtered, exported and imported.
func TestCustomFields(t *testing.T) {
	t.Parallel()
	c := operator(t)
	define := func(entity, key, more string) j {
		body := j{"entity": entity, "key": key, "name": "Field " + key}
		for pair := range strings.SplitSeq(more, ";") {
			name, value, _ := strings.Cut(pair, "=")
			body[name] = value
		}
		return body
	}
	for _, body := range []j{define("spool", "Tag", "type=text"), define("printer", "tag", "type=text"),
		define("spool", "tag", "type=odd"), define("spool", "c", "type=choice"),
		define("spool", "tag", "type=text;default_value=5"), define("spool", "tag", "type=text;default_value=x"),
		{"entity": "spool", "key": "tag", "name": "x", "type": "text", "choices": []string{"a"}},
		{"entity": "spool", "key": "tag", "name": "x", "type": "text", "multiple": true},
		{"entity": "spool", "key": "c", "name": "x", "type": "choice", "choices": []string{"a", "a"}}} {
		c.Post(t, customFields, body).WantError(422, "VALIDATION_ERROR")
	}
	tag := c.Post(t, customFields, define("spool", "tag", "type=text;default_value=\"x\"")).Want(201).ID()
	c.Post(t, customFields, define("spool", "tag", "type=text")).WantError(409, "DUPLICATE_CUSTOM_FIELD")
	c.Post(t, customFields, define("filament", "tag", "type=text")).Want(201)
	c.Post(t, customFields, define("vendor", "tag", "type=text")).Want(201)
	c.Post(t, customFields, j{"entity": "spool", "key": "n", "name": "N", "type": "integer"}).Want(201)
	choice := c.Post(t, customFields, j{"entity": "spool", "key": "c", "name": "C", "type": "choice",
		"choices": []string{"a", "b"}, "multiple": true}).Want(201).ID()
	c.Get(t, customFields+"?entity=spool").Want(200).Shows(map[string]string{"total": "3"})
	c.Patch(t, customFields+"/"+choice, j{"choices": []string{"a"}}).WantError(422, "VALIDATION_ERROR")
	c.Patch(t, customFields+"/"+choice,
		j{"choices": []string{"a", "b", "d"}, "type": "text", "name": "New"}).Want(200).
		Shows(map[string]string{"type": "choice", "name": "New", "choices.2": "d"})

	for _, extra := range []any{j{"odd": 1}, j{"tag": 1}, j{"n": 1.5}, j{"n": "1"}, j{"c": "a"}, j{"c": []string{"z"}},
		j{"Tag": "x"},
		"tag", []int{1}} {
		c.Post(t, spools, spool(j{"extra": extra})).WantError(422, "VALIDATION_ERROR")
	}
	c.Post(t, spools, spool(j{"extra": j{"tag": "Ab", "missing": nil}})).WantError(422, "VALIDATION_ERROR")
	one := c.Post(t, spools, spool(j{"extra": j{"tag": "Ab", "n": 5, "c": []string{"a", "d"}}})).Want(201).
		Shows(map[string]string{"extra.tag": "Ab", "extra.n": "5"}).ID()
	two := c.Post(t, spools, spool(j{"extra": j{"tag": "B", "n": nil}})).Want(201).ID()
	c.Patch(t, spools+"/"+one, j{"extra": j{"n": 6, "c": nil}, "notes": "x"}).Want(200).
		Shows(map[string]string{"extra.tag": "Ab", "extra.n": "6", "notes": "x"})
	c.Patch(t, spools, j{"numbers": []int{1, 2}, "changes": j{"extra": j{"n": 7}}}).Want(200)
	c.Patch(t, spools, j{"numbers": []int{1, 2}, "changes": j{"extra": j{"n": "x"}}}).WantError(422,
		"VALIDATION_ERROR")
	for _, path := range []string{"vendors", "filaments"} {
		body := j{"name": "V", "extra": j{"tag": "V1"}}
		if path == "filaments" {
			body["material_type"], body["color"], body["diameter_mm"] = "PLA", "Red", 1.75
		}
		created := c.Post(t, "/api/v1/"+path, body).Want(201).Shows(map[string]string{"extra.tag": "V1"}).ID()
		c.Patch(t, "/api/v1/"+path+"/"+created,
			j{"extra": j{"tag": "V2"}}).Want(200).Shows(map[string]string{"extra.tag": "V2"})
		c.Patch(t, "/api/v1/"+path+"/"+created, j{"extra": j{"odd": "V2"}}).WantError(422, "VALIDATION_ERROR")
		c.Get(t, "/api/v1/"+path+"?extra.tag=v2").Want(200).Shows(map[string]string{"total": "1"})
		c.Get(t, "/api/v1/"+path+"?extra.tag=v1").Want(200).Shows(map[string]string{"total": "0"})
	}
	for query, want := range map[string]string{"extra.tag=ab": "1", "extra.tag=a": "0", "extra.n=7": "2",
		"extra.n=7&extra.tag=B": "1",
		"extra.odd=1":           "0"} {
		c.Get(t, spools+"?"+query).Want(200).Shows(map[string]string{"total": want})
	}
	c.Get(t, spools+"?extra.Tag=x").WantError(422, "VALIDATION_ERROR")
	c.Get(t, customFields+"?extra.tag=x").WantError(422, "VALIDATION_ERROR")
	if text := string(c.Get(t, spools+"/export?format=csv&extra.tag=b").Want(200).Body); !strings.Contains(text,
		two) ||
		!strings.Contains(text, `"{""n"":7,""tag"":""B""}"`) || strings.Contains(text, one) {
		t.Errorf("the export is %s", text)
	}
	csv := c.With("Content-Type", "text/csv")
	csv.Post(t, spools+"/import?mode=update",
		fmt.Sprintf("id,extra\n%s,\"{\"\"tag\"\":\"\"C\"\"}\"\n%s,\n", one, two)).Want(200).
		Shows(map[string]string{"rows.0.action": "updated", "rows.1.action": "updated"})
	c.Get(t, spools+"/"+one).Want(200).Shows(map[string]string{"extra.tag": "C"})
	csv.Post(t, spools+"/import?mode=update", fmt.Sprintf("id,extra\n%s,\"{\"\"n\"\":\"\"C\"\"}\"\n", one)).
		WantError(422, "VALIDATION_ERROR")
	file := "material_type,color,diameter_mm,net_weight_grams,extra\nPLA,Red,1.75,1000,\"{\"\"tag\"\":\"\"D\"\"}\"\n"
	csv.Post(t, spools+"/import", file).Want(200)
	csv.Post(t, spools+"/import", strings.Replace(file, "tag", "n", 1)).WantError(422, "VALIDATION_ERROR")
	c.Get(t, spools+"?extra.tag=d").Want(200).Shows(map[string]string{"total": "1"})
	other := operator(t)
	other.Get(t, customFields+"/"+tag).WantError(404, "NOT_FOUND")
	c.Delete(t, customFields+"/"+tag).Want(204)
	if text := string(c.Get(t, spools+"/"+one).Want(200).Body); !strings.Contains(text, `"extra":{}`) {
		t.Errorf("the spool keeps a value without a definition: %s", text)
	}
}

// A choice that was added meanwhile cannot be removed either.
func TestChoicesAddedMeanwhile(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		s := spoolman.Surface(c.DB)
		t.Cleanup(s.Close)
		c.Surfaces = []server.Surface{s}
	}}, inventory.Routes)
	tenant := api.Tenant(t)
	c, key := tenant.User(t, "operator"), tenant.Key(t, "operator")
	path := customFields + "/" + c.Post(t, customFields, j{"entity": "spool", "key": "finish", "name": "Finish",
		"type": "choice", "choices": []string{"matt"}}).Want(201).ID()
	choices := []string{"matt", "gloss"}
	for name, change := range map[string]struct {
		send   func() *testkit.Response
		status int
	}{
		"PATCH": {func() *testkit.Response { return c.Patch(t, path, j{"choices": choices}) }, 422},
		"Spoolman": {func() *testkit.Response {
			return key.Post(t, "/spoolman/api/v1/field/spool/finish", j{"name": "Finish", "field_type": "choice",
				"choices": choices, "multi_choice": false})
		}, 400},
	} {
		held := c.Hold(t, `update custom_fields set choices = '{matt,`+name+`}' where id = '`+path[len(customFields)+1:]+`'`)
		var a *testkit.Response
		done := held.StartWaiting(1, func() { a = change.send() })
		held.Commit()
		<-done
		a.Want(change.status)
		c.Get(t, path).Want(200).Shows(map[string]string{"choices": "[matt " + name + "]"})
		c.Hold(t, `update custom_fields set choices = '{matt}' where id = '`+path[len(customFields)+1:]+`'`).Commit()
	}
}

// A value waits for a removal of its definition, and is then refused.
func TestValueOfRemovedCustomField(t *testing.T) {
	t.Parallel()
	c := operator(t)
	for name, stores := range map[string]func() bool{
		"create": func() bool { return c.Post(t, spools, spool(j{"extra": j{"tag": "x"}})).Status != 422 },
		"import from Spoolman": func() bool {
			ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
			_, err := imports.Importer{DB: c.API.DB}.Spoolman(ctx, strings.NewReader(`[{"id": 1, "extra": {"tag": "\"x\""},
					"filament": {"id": 1, "material": "PLA", "diameter": 1.75, "weight": 1000}}]`), imports.SourceOptions{})
			return err == nil || !strings.Contains(err.Error(), "custom fields were changed in the meantime")
		},
	} {
		field := c.Post(t, customFields, j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201).ID()
		held := c.Hold(t, `delete from custom_fields where id = '`+field+`'`)
		stored := false
		done := held.StartWaiting(1, func() { stored = stores() })
		held.Commit()
		if <-done; stored {
			t.Errorf("%s: the value was stored", name)
		}
	}
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})
}

// The removal of a custom field waits for a value that another transaction stores, and then removes it.
func TestRemovedCustomFieldOfValue(t *testing.T) {
	t.Parallel()
	c := operator(t)
	field := c.Post(t, customFields, j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201).ID()
	id := c.Post(t, spools, spool(nil)).Want(201).ID()
	held := c.Hold(t, `select from custom_fields where id = '`+field+`' for share`,
		`update spools set extra = '{"tag": "x"}' where id = '`+id+`'`)
	var removed *testkit.Response
	done := held.StartWaiting(1, func() { removed = c.Delete(t, customFields+"/"+field) })
	held.Commit()
	<-done
	removed.Want(204)
	c.Get(t, spools+"/"+id).Want(200).Shows(map[string]string{"extra": "map[]"})
}
