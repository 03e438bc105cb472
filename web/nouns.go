package web

import "spoolwright/value/language"

// noun has the texts about a kind of things. Other languages cannot put a noun into a sentence as English does.
type noun struct {
	count, noMatch                  language.Text // of a list
	create, edit, ask               language.Text // the titles of forms, and the question before the removal
	added, saved, removed, restored language.Text // notices
	allRemoved, noneRemoved         language.Text // of the list of removed things
}

var (
	spoolNoun = &noun{count: "%d spool|%d spools", noMatch: "No spool matches.",
		create: "New spool", edit: "Edit the spool", ask: "Remove this spool?",
		added: "The spool is added.", saved: "The spool is saved.", removed: "The spool is removed.",
		restored: "The spool is restored.", allRemoved: "Removed spools", noneRemoved: "No spool is removed."}
	filamentNoun = &noun{count: "%d filament|%d filaments", noMatch: "No filament matches.",
		create: "New filament", edit: "Edit the filament", ask: "Remove this filament?",
		added: "The filament is added.", saved: "The filament is saved.", removed: "The filament is removed.",
		restored: "The filament is restored.", allRemoved: "Removed filaments", noneRemoved: "No filament is removed."}
	vendorNoun = &noun{count: "%d vendor|%d vendors", noMatch: "No vendor matches.",
		create: "New vendor", edit: "Edit the vendor", ask: "Remove this vendor?",
		added: "The vendor is added.", saved: "The vendor is saved.", removed: "The vendor is removed.",
		restored: "The vendor is restored.", allRemoved: "Removed vendors", noneRemoved: "No vendor is removed."}
	printerNoun = &noun{count: "%d printer|%d printers", noMatch: "No printer matches.",
		create: "New printer", edit: "Edit the printer", ask: "Remove this printer?",
		added: "The printer is added.", saved: "The printer is saved.", removed: "The printer is removed.",
		restored: "The printer is restored.", allRemoved: "Removed printers", noneRemoved: "No printer is removed."}
	productNoun = &noun{count: "%d product|%d products", noMatch: "No product matches.",
		create: "New product", edit: "Edit the product", ask: "Remove this product?",
		added: "The product is added.", saved: "The product is saved.", removed: "The product is removed.",
		restored: "The product is restored.", allRemoved: "Removed products", noneRemoved: "No product is removed."}
	orderNoun = &noun{count: "%d order|%d orders", noMatch: "No order matches.",
		create: "New order", edit: "Edit the order", ask: "Remove this order?",
		added: "The order is added.", saved: "The order is saved.", removed: "The order is removed.",
		restored: "The order is restored.", allRemoved: "Removed orders", noneRemoved: "No order is removed."}
	runNoun = &noun{count: "%d run|%d runs", noMatch: "No run matches.",
		create: "New run", edit: "Edit the run", ask: "Remove this run?",
		added: "The run is added.", saved: "The run is saved.", removed: "The run is removed.",
		restored: "The run is restored.", allRemoved: "Removed runs", noneRemoved: "No run is removed."}
	userNoun = &noun{count: "%d user|%d users", noMatch: "No user matches.",
		create: "New user", edit: "Edit the user", ask: "Remove this user?",
		added: "The user is added.", saved: "The user is saved.", removed: "The user is removed.",
		restored: "The user is restored.", allRemoved: "Removed users", noneRemoved: "No user is removed."}
	customFieldNoun = &noun{count: "%d field|%d fields", noMatch: "No field matches.",
		create: "New field", edit: "Edit the field", ask: "Remove this field?",
		added: "The field is added.", saved: "The field is saved.", removed: "The field is removed.",
		restored: "The field is restored.", allRemoved: "Removed fields", noneRemoved: "No field is removed."}
	levelNoun = &noun{count: "%d stock level|%d stock levels", noMatch: "No stock level matches.",
		create: "New stock level", edit: "Edit the stock level", ask: "Remove this stock level?",
		added: "The stock level is added.", saved: "The stock level is saved.", removed: "The stock level is removed.",
		restored: "The stock level is restored.", allRemoved: "Removed stock levels",
		noneRemoved: "No stock level is removed."}
	spoolsNoun   = &noun{create: "New spools", edit: "Edit the chosen spools"}
	entryNoun    = &noun{count: "%d entry|%d entries", noMatch: "No entry matches."}
	deliveryNoun = &noun{count: "%d delivery|%d deliveries", noMatch: "No delivery matches."}
)
