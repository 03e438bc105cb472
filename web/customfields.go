package web

import (
	"encoding/json"
	"strings"

	"spoolwright/value/language"
)

// customField is the definition of a custom field, as the API returns it.
type customField struct {
	ID, Entity, Key, Name, Type, Unit string
	Choices                           []string
	Multiple                          bool
	Default                           string `json:"default_value"`
}

// What returns the entity that has the field, and the type of the field, in words.
func (f customField) What(v view) string {
	return commas(v, []string{v.nameOf(customEntities, f.Entity), v.nameOf(customTypes, f.Type)})
}

type customFields struct{ Items []customField }

func customRead(entity string, into *customFields) read {
	return get("/api/v1/custom-fields?limit=100&sort_by=position&sort_order=asc&entity="+entity, into)
}

// fields returns the custom fields as fields of a form, and inputs returns their inputs. Their names are extra.KEY.
func (c *customFields) fields() (fields []field) {
	for _, item := range c.Items {
		kind := map[string]kind{"integer": number, "float": number, "integer_range": span, "float_range": span,
			"boolean": optionalFlag}[item.Type]
		if item.Multiple {
			kind = list
		}
		fields = append(fields, field{"extra." + item.Key, kind})
	}
	return fields
}

func (c *customFields) inputs(f *form) (inputs []input) {
	v := f.read.visit
	for i, field := range c.fields() {
		item := c.Items[i]
		in := input{Form: f, Name: field.name, Label: item.Name, Unit: item.Unit, May: true}
		switch field.kind {
		case number:
			in.Type = "number"
		case span:
			in.Hint = v.t("Two numbers, such as 190–220")
		case list:
			in.Hint = v.t("Separated by commas: %s", strings.Join(item.Choices, ", "))
		case optionalFlag:
			in.Options = []option{{"", "–"}, {"true", v.t("Yes")}, {"false", v.t("No")}}
		default:
			if len(item.Choices) > 0 {
				in.Options = []option{{"", "–"}}
			}
			for _, choice := range item.Choices {
				in.Options = append(in.Options, option{choice, choice})
			}
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// preset sets the values of a new resource's form to the defaults of the custom fields.
func (c *customFields) preset(f *form) {
	for _, item := range c.Items {
		var value any
		if json.Unmarshal([]byte(item.Default), &value) == nil {
			f.Values.Set("extra."+item.Key, f.read.customText(value))
		}
	}
}

// fact is the value of a custom field with the name of the field.
type fact struct{ Name, Value string }

// facts returns the values in extra, except empty ones.
func (c *customFields) facts(v *visit, extra map[string]any) (facts []fact) {
	for _, item := range c.Items {
		value := extra[item.Key]
		text := v.locale.customText(value)
		if yes, ok := value.(bool); ok {
			text = v.t(map[bool]language.Text{true: "Yes", false: "No"}[yes])
		}
		if text != "" {
			facts = append(facts, fact{item.Name, strings.TrimSpace(text + "\u00a0" + item.Unit)})
		}
	}
	return facts
}

var (
	customEntities = []word{{"spool", "Spools"}, {"filament", "Filaments"}, {"vendor", "Vendors"}}
	customTypes    = []word{{"text", "Text"}, {"integer", "Whole number"}, {"float", "Number|a type"},
		{"integer_range", "Range of whole numbers"}, {"float_range", "Range of numbers"},
		{"datetime", "Time|a date with a time"}, {"boolean", "Yes or no"}, {"choice", "Choice"}}
)

// nameOf returns the name of the option with the value in the language of the visitor, or the value as words.
func (v *visit) nameOf(words []word, value string) string {
	for _, w := range words {
		if w.Value == value {
			return v.t(w.Name)
		}
	}
	return v.label(value)
}

// definitions are the pages of the custom fields themselves.
var definitions = &editor{api: "/api/v1/custom-fields", path: "/settings/fields", noun: customFieldNoun,
	back: "/settings/fields",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"entity", text}, "Of|the things that have a field", "", customEntities},
		{field{"key", text}, "Key in the API", "required;hint=Lower-case letters, digits and underscores", nil},
		{field{"type", text}, "Type", "", customTypes},
		{field{"unit", text}, "Unit", "", nil},
		{field{"choices", list}, "Choices", "hint=Separated by commas, for the type choice", nil},
	}}
