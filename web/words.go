package web

import "spoolwright/value/language"

// The texts that label makes from names of the API. No constant has them where label makes them, so this table has
// them: the files of languages need all constants of the type Text. TestWords checks that none is missing. Names of
// materials are data.
var _ = []language.Text{
	// States of runs, orders, printers and deliveries, conditions of watched printers, and outcomes of their jobs.
	"Pending", "In progress", "Paused", "Completed", "Failed", "Cancelled",
	"Received", "In production", "Done",
	"Available", "Maintenance", "Retired",
	"Delivered",
	"Idle", "Printing", "Attention", "Offline", "Unknown",

	// Actions of the history of runs.
	"Corrected", "Reopened", "Exchanged",

	// Reasons of failures, alone and after a state.
	"Adhesion", "Spaghetti", "Layer shift", "Clog", "Under extrusion", "Over extrusion", "Warping", "Stringing",
	"Filament runout", "Power failure", "Printer error", "Operator error", "Quality", "Other",
	"adhesion", "spaghetti", "layer shift", "clog", "under extrusion", "over extrusion", "warping", "stringing",
	"filament runout", "power failure", "printer error", "operator error", "quality", "other",

	// Roles, and kinds of actors.
	"Viewer", "Operator", "Admin", "Printer", "Watcher",
	"User", "Api key", "Command line", "Service",

	// Things with custom fields, types of custom fields, and the material without a name of its own.
	"Spool", "Filament", "Vendor",
	"Text", "Integer", "Integer range", "Float", "Float range", "Datetime", "Boolean", "Choice",
	"Custom",

	// Kinds of imports.
	"Vendors", "Filaments", "Spools", "Products", "Orders",

	// Fields that differ between a product and its file.
	"Estimated print time minutes", "Pieces per plate", "File name", "File sha256", "Sliced by", "Printer model",
	"Nozzle mm", "Layer height mm", "Picture version",

	// Fields in problems with values for which the form has no input, and in summaries of problems.
	"This", "Actual print time hours", "Actual weight", "Address", "Answer", "Archived", "Article number",
	"Bed temperature c", "Brand", "Carrier", "Category", "Choices", "Color", "Color hex", "Completed at",
	"Completed from", "Completed to", "Component product id", "Cost per gram", "Counted", "Currency", "Customer",
	"Default value",
	"Density g cm3", "Description", "Diameter mm", "Due date", "Email", "Empty spool weight",
	"Estimated print time hours", "Estimated weight", "Exchange rate", "External id", "Extruder temperature c",
	"Failed quantity", "Failure notes", "Failure reason", "File", "Filament id", "Filament number", "Filename", "Finish",
	"Gross", "Hour cost", "Items", "Job", "Kind", "Labour minutes", "Location", "Lot number",
	"Maintenance interval hours", "Material", "Material name", "Material type", "Materials", "Minimum",
	"Minimum pieces", "Model", "Month", "Name", "Net weight", "Notes", "Number", "Order item id", "Person", "Pieces",
	"Place", "Plate", "Plates", "Power watts", "Price", "Printer id", "Printer name", "Product id", "Purchase date",
	"Purchase price", "Quantity", "Reason", "Reference", "Remaining weight", "Replaces color",
	"Replaces material type", "Role", "Run id", "Search", "Secret", "Selling price", "Serial", "Sku", "Slots",
	"Source", "Spool id", "Spool number", "Spool weight", "Started at", "Status", "Successful quantity", "Supplier",
	"Tax amount", "Time zone", "To spool number", "Tracking number", "Type", "Unit", "Unit price", "Url", "Used",
	"Variant materials", "Variants", "Wasted", "Weight",
}
