// Chooses by keys only, in every picker of the pages, the thing that a list shows last: on a farm with 300 products, 200
// filaments and more spools, orders and printers than a page of a list has.
//
//   node pickers.mjs BASE_URL EMAIL PASSWORD
//
// The account must exist and be an admin. Each picker is used in a wide window and on a phone, with the script and
// without it. The script needs playwright-core and Chromium, as docs.mjs does. It prints a line per walk, and exits
// with status 1 after the first failed check.

import { base, check, Farm, signIn, withBrowser } from "./farm.mjs";

const tag = `Row${Date.now().toString(36)}`;
const number = (n) => String(n).padStart(3, "0");

// many runs a function for each number from 1 to the count, ten at a time, and returns the results.
async function many(count, make) {
  const all = [];
  for (let first = 1; first <= count; first += 10) {
    all.push(...await Promise.all(Array.from({ length: Math.min(10, count - first + 1) }, (_, i) => make(first + i))));
  }
  return all;
}

// fill fills the farm, and returns what the walks choose: the last by name, or the oldest of a list with the newest
// first.
async function fill(farm) {
  const spool = await farm.newSpool({ color: `${tag} Oldest`, lot_number: `${tag}-lot` });
  const filament = await farm.post("/filaments",
    { material_type: "PETG", color: `${tag} ${number(200)}`, color_hex: "#1144AA", diameter_mm: 1.75 });
  await many(199, (n) => farm.post("/filaments",
    { material_type: "PLA", color: `${tag} ${number(n)}`, color_hex: "#AA4411", diameter_mm: 1.75 }));
  const products = await many(300, (n) => farm.post("/products",
    { name: `${tag} ${number(n)}`, sku: `${tag}-${number(n)}`, materials: [
      { material_type: "PLA", color: "Plum", weight_grams: 10 }] }));
  const product = products.find(({ name }) => name.endsWith("300"));
  const order = await farm.post("/orders",
    { customer: `${tag} Oldest`, items: [{ product_id: products[0].id, quantity: 1 }] });
  await many(60, (n) => farm.post("/orders", { customer: `${tag} ${number(n)}` }));
  const printers = await many(105, (n) => farm.post("/printers", { name: `${tag} ${number(n)}`, slots: 2 }));
  const printer = printers.find(({ name }) => name.endsWith("105"));
  await farm.post("/spools/batch", { quantity: 100, material_type: "PLA", color: `${tag} Other`, diameter_mm: 1.75,
    net_weight_grams: 1000 });
  const run = await farm.post("/production-runs", { items: [{ product_id: products[0].id }] });
  return { spool, filament, product, order, printer, run, first: products[0] };
}

// pickers returns the pickers of all pages: the page, the form if the page has several, the name of the input, the text
// to type, the value, and the text of the summary that opens the form.
function pickers(f) {
  const product = [`${tag} 300`, f.product.id], filament = [`${tag} 200`, f.filament.id];
  const spool = [`${tag} oldest`, String(f.spool.number)], printer = [`${tag} 105`, f.printer.id];
  return [
    ["/orders/new", "", "items[0].product_id", ...product], ["/orders/new", "", "items[2].product_id", ...product],
    [`/orders/${f.order.id}`, "/items", "product_id", ...product],
    ["/products/new", "", "materials[1].filament_id", ...filament],
    ["/products/new", "", "components[0].component_product_id", ...product],
    [`/products/${f.first.id}`, "/components", "component_product_id", ...product, "Add a component"],
    [`/products/${f.first.id}`, "/materials", "filament_number", `${tag} 200`, String(f.filament.number),
      "Add a material"],
    ["/spools/new", "", "filament_id", ...filament],
    ["/runs/new", "", "items[0].product_id", ...product], ["/runs/new", "", "materials[0].spool_number", ...spool],
    ["/runs/new", "", "printer_name", `${tag} 105`, f.printer.name],
    [`/runs/${f.run.id}`, "/items", "product_id", ...product, "Add a product"],
    [`/runs/${f.run.id}`, "/materials", "spool_number", ...spool],
    [`/runs/${f.run.id}`, "/edit", "printer_id", ...printer],
    [`/printers/${f.printer.id}`, "/slots/1", "spool_number", ...spool],
    [`/spools/${f.spool.id}`, "/load", "slot", `${tag} 105`, `${f.printer.id} 2`, "Load"],
    ["/runs/all", "", "product", ...product], ["/runs/all", "", "printer", ...printer],
    ["/runs/all", "", "order", `${tag} oldest`, f.order.id], ["/runs/all", "", "spool", ...spool],
  ];
}

// open opens a page and its form, and returns the picker.
async function open(page, [path, action, name, , , summary]) {
  await page.goto(base + path);
  if (summary) await page.locator(`summary:text-is("${summary}")`).press("Enter");
  const form = page.locator(`main form${action && `[action$="${action}"]`}:has([name="${name}"])`);
  return form.locator(`[data-pick]:has([type=hidden][name="${name}"])`).filter({ visible: true }).first();
}

// withScript chooses in a combobox. It checks what a screen reader hears.
async function withScript(page, picker, [path, , name, text, value]) {
  const what = `${path} ${name}`;
  const input = picker.getByRole("combobox");
  await input.focus();
  await page.keyboard.type(text);
  await picker.locator("[aria-busy=false] [role=option]").first().waitFor();
  check(`${what} is expanded`, await input.getAttribute("aria-expanded") === "true");
  const controls = await input.getAttribute("aria-controls");
  check(`${what} controls its list`, await picker.getByRole("listbox").getAttribute("id") === controls);
  check(`${what} fits`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  for (let i = 0; i < 6; i++) { // other things have the number, too
    await page.keyboard.press("ArrowDown");
    const option = picker.locator("[aria-selected=true]");
    check(`${what} names the active option`,
      await option.getAttribute("id") === await input.getAttribute("aria-activedescendant"));
    if (await option.getAttribute("data-value") === value) break;
  }
  await page.keyboard.press("Enter");
  if (path === "/runs/all") { // the filter applies
    await page.waitForURL((url) => url.searchParams.get(name) === value);
    return;
  }
  check(`${what} is closed`, await input.getAttribute("aria-expanded") === "false");
  const got = await picker.locator(`[type=hidden][name="${name}"]`).inputValue();
  check(`${what} has the value`, got === value, `${got}, not ${value}`);
}

// withoutScript searches in the form, which comes back with what was typed, and chooses a radio button.
async function withoutScript(page, picker, all) {
  const [path, , name, text, value] = all;
  const what = `${path} ${name} without the script`;
  const input = picker.locator('[name^="find."]');
  const notes = page.locator(`main form:has([name="${name}"]) [name=notes]`).first();
  const hasNotes = await notes.count() > 0 && path.endsWith("/new");
  if (hasNotes) await notes.fill("Typed before");
  await input.focus();
  await page.keyboard.type(text);
  await page.keyboard.press("Tab");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  if (hasNotes) check(`${what} keeps the notes`, await notes.inputValue() === "Typed before");
  check(`${what} keeps the text`, await page.locator(`[name="${await input.getAttribute("name")}"]`).evaluateAll(
    (inputs, text) => inputs.some((e) => e.value === text), text));
  check(`${what} fits`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  const radio = page.locator(`[type=radio][name="${name}"][value="${value}"]`).first();
  await radio.focus();
  await page.keyboard.press("Space");
  check(`${what} is chosen`, await radio.isChecked());
}

async function walk(browser, options, found) {
  const page = await (await browser.newContext(options)).newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await signIn(page);
  const all = pickers(found);
  for (const one of all) {
    const picker = await open(page, one);
    await (options.javaScriptEnabled === false ? withoutScript : withScript)(page, picker, one);
  }
  check("the pages have no errors", problems.length === 0, problems.join("\n"));
  await page.context().close();
  return all.length;
}

// arrows reaches the last of all products with the arrow keys alone, and saves it.
async function arrows(page, farm, { product }) {
  await signIn(page);
  const picker = await open(page, ["/orders/new", "", "items[0].product_id"]);
  const input = picker.getByRole("combobox");
  await input.focus();
  await page.keyboard.press("ArrowDown");
  await picker.getByRole("option").first().waitFor();
  for (let i = 0; ; i++) {
    await picker.locator("[role=listbox][aria-busy=false]").waitFor();
    check("the arrow keys reach the last product", i < 900);
    await page.keyboard.press("ArrowDown");
    await picker.locator("[role=listbox][aria-busy=false]").waitFor();
    if (await picker.locator("[aria-selected=true]").getAttribute("data-value") === product.id) break;
  }
  await page.keyboard.press("Enter");
  const customer = `${tag} by arrows`;
  await page.fill("[name=customer]", customer);
  await page.keyboard.press("Enter");
  await page.waitForSelector(`main >> text=${customer}`);
  const { items } = await farm.send("GET", `/orders?customer=${encodeURIComponent(customer)}`);
  check("the order has the product", items[0].items[0].product_id === product.id, JSON.stringify(items));
  // A text that is sent before something was chosen counts, if it means one thing.
  await page.goto(base + "/orders/new");
  await page.fill("[name=customer]", customer + " 2");
  await page.locator("[data-pick] input").first().fill(product.sku);
  await page.keyboard.press("Enter");
  await page.waitForSelector(`main h1 >> text=${customer} 2`);
}

await withBrowser(async (browser) => {
  const farm = new Farm((await browser.newContext()).request);
  await farm.signIn();
  const found = await fill(farm);
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    for (const javaScriptEnabled of [true, false]) {
      const count = await walk(browser, { viewport, javaScriptEnabled }, found);
      console.log(`ok    ${count} pickers, ${viewport.width} px${javaScriptEnabled ? "" : ", without JavaScript"}`);
    }
  }
  await arrows(await browser.newPage(), farm, found);
  console.log("ok    300 products with the arrow keys");
});
