package inventory

// Prices names the SQL function by which other packages' SQL asks what filament costs:
//
//	filament_prices(material_types text[], color_keys text[])
//	returns table (material_type text, color_key text, amount numeric, grams numeric)
//
// It takes pairs of a material and a colour in its compared form (lower case, as a color_key column holds it), any number
// at once, and returns one row for each different pair, from the spools of the tenant that the transaction is bound to. The
// price per gram is amount / grams, left as a fraction so that nothing is rounded before it is multiplied; both are null
// if no spool tells a price.
//
// Only priced spools that are not hidden count. The price is the first of these that there is:
//
//  1. the mean cost_per_gram of that material and colour, weighted by the remaining filament;
//  2. the plain mean of these, if nothing remains on any of them;
//  3. and 4. the same two over the material in any colour.
const Prices = "filament_prices"
