package imports

import (
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// Imported is the result of an import through the API.
type Imported struct {
	transfer.ImportCounts
	ImportID     *value.UUID     `json:"import_id"`
	CustomFields []ImportedField `json:"custom_fields" rule:"notNull"`
	Rows         []ImportedRow   `json:"rows"`
}

// ImportedRow is the result of an import for one row.
type ImportedRow struct {
	Row    int64                 `json:"row" rule:"notNull"`
	ID     *value.UUID           `json:"id"`
	Number *int64                `json:"number"`
	Action transfer.ImportAction `json:"action" rule:"notNull"`
}

var importDoc = &server.Doc{
	ID: "importSpools", Tag: spoolsTag, Summary: "Import spools from CSV",
	Description: "Creates or changes all spools of a CSV file, or none. The first line names the columns, which are " +
		"fields of a spool; columns of other read-only fields than `id` and `number` are ignored.\n\n" +
		"With the `mode` `create`, each row is a new spool and must satisfy the rules of `POST /api/v1/spools`; " +
		"`material_type`, `color`, `diameter_mm` and `net_weight_grams` are required, and `id` and `number` are " +
		"ignored. With `update`, a row changes the spool that its `id` or `number` names as a `PATCH` does: only " +
		"the columns of the file change, and an empty cell is null. A row that names no spool is skipped. With " +
		"`upsert`, such a row is a new spool, and so is one whose `id` or `number` is unknown. The `id` takes " +
		"precedence: only if no `id` of the file is known, the numbers are used, if all spools with these numbers " +
		"have the material, color, brand and net weight of their rows. A row with the current values of its spool " +
		"changes nothing. A changed `remaining_weight_grams` is an entry of the usage ledger; leave the column out to " +
		"change other fields while the spools are in use.\n\n" + importedExtra + spoolmanDescription + madeDescription +
		"\n\n" + transfer.ImportRules(maxRows),
}

const importedExtra = "A custom field of the column `extra` without a definition gets one, with the narrowest type " +
	"that fits all its values in the file; `custom_fields` lists these definitions.\n\n"

const spoolmanDescription = "The body may also be a file of Spoolman, whichever of the imports of spools, filaments and " +
	"vendors it is sent to: a list of its API as JSON, or its export as JSON or CSV, with the media type `text/csv`. It " +
	"needs no `mapping`, and `mode` does not matter: the import creates what is new in Spoolman, with vendors, " +
	"filaments, numbers and custom fields, changes what has changed there since the last import, and leaves alone what " +
	"was edited here. The counts and `rows` are those of the spools of the file, or else of its filaments or vendors; " +
	"in JSON, `row` is the place in the list. The check then has the `program` `Spoolman` and no `columns`.\n\n"

const importExample = "material_type,brand,color,diameter_mm,net_weight_grams,purchase_price\n" +
	"PLA,Polymaker,Black,1.75,1000,24.99\nPETG,,Transparent,1.75,750,\n"

// maxRows limits the time that the transaction of an import through the API takes.
const maxRows = 10_000
