// Does what a farm does each day on the pages of a running service, and counts the clicks and the fields of each task.
//
//   node tasks.mjs BASE_URL EMAIL PASSWORD [PICTURES]
//
// The account must exist and be an admin. A task begins on the page that its entry names, and must need at most its
// clicks and fields. The choice of an option and of a file count as clicks. Each task is done four times: with a wide
// window and on a phone, each with and without JavaScript. PICTURES is a folder for a picture of the last page of each
// task. The script prints a line per walk, and exits with status 1 after the first failed check.

import { join } from "node:path";
import { base, check, Farm, more, signIn, withBrowser } from "./farm.mjs";

const [pictures] = more;

// Person clicks and types on a page, and counts both.
class Person {
  constructor(page) {
    Object.assign(this, { page, clicks: 0, fields: 0 });
  }

  visible(selector, text) {
    return this.page.locator(selector, text && { hasText: text }).filter({ visible: true }).first();
  }

  async open(name) { // a part of the page
    this.clicks++;
    await this.visible("main summary", new RegExp(`^\\s*${name}\\s*$`)).click();
  }

  async press(selector, text) { // a link or button that leads to a page
    this.clicks++;
    await Promise.all([this.page.waitForNavigation(), this.visible(selector, text).click()]);
    await this.page.waitForLoadState("load");
  }

  async choose(name, label) {
    const picker = this.visible(`main form >> [data-pick]:has([type=hidden][name="${name}"]) input`);
    if (await picker.count() > 0) { // the text counts, because it names one thing
      this.fields++;
      return picker.fill(label);
    }
    this.clicks++;
    await this.visible(`main select[name="${name}"]`).selectOption({ label });
  }

  async file(selector, name, text) {
    this.clicks++;
    await this.page.locator(selector).setInputFiles({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
  }

  async fill(name, value) {
    this.fields++;
    await this.visible(`main form >> [name="${name}"]`).fill(String(value));
  }
}

// tasks has for each one: the most clicks and fields; from, which prepares the farm and returns the path of the page on
// which the task begins; and do, which does it and returns the problem with the result, or nothing.
const tasks = {
  "a filament from the catalog": {
    most: [2, 1],
    async from(farm) {
      await farm.newCatalog();
      return "/filaments";
    },
    async do(person, farm) {
      await person.press("main a", "Add a filament");
      await person.fill("catalog", farm.catalog.name);
      await Promise.all([person.page.waitForNavigation(), person.page.keyboard.press("Enter")]);
      await person.press("main form[action^='/filaments/from-catalog'] button");
      const made = await farm.of(person.page, "filaments");
      return (made.vendor_name !== "Prusament" || made.color_hex !== "#3D3E3D" || made.density_g_cm3 !== 1.24
        || made.extruder_temperature_c !== 215 || made.spool_weight_grams !== 201) && JSON.stringify(made);
    },
  },
  "ten spools and their labels": {
    most: [2, 2],
    async from(farm) {
      await farm.newFilament();
      return "/spools";
    },
    async do(person, farm) {
      await person.press("main a", "Add spools");
      await person.choose("filament_id", farm.filament.label);
      await person.fill("quantity", 10);
      await person.press("main button", "Add and print labels");
      const labels = await person.page.locator(".label").count();
      return labels !== 10 && `${labels} labels`;
    },
  },
  "an import of 60 own rows": {
    most: [4, 0],
    async from() {
      return "/spools";
    },
    async do(person, farm) {
      const color = farm.name("Anthrazit");
      const rows = Array.from({ length: 60 }, (_, i) => `Ölmühle;${color};PLA+;1000;${i};23,49 €;Regal ${i % 7}`);
      await person.press("main a", "Import");
      await person.file("main [type=file]", "spulen.csv",
        ["Hersteller;Farbe;Material;Gewicht;Rest (g);Preis;Lagerort", ...rows].join("\r\n"));
      await person.press("main button", "Continue");
      await person.press("main button", "Import 60");
      const said = await person.page.locator("main [role=status]").innerText();
      const { items, total } = await farm.send("GET", `/spools?color=${encodeURIComponent(color)}&limit=1`);
      const [spool] = items;
      return (!said.includes("60 created") || total !== 60 || spool.purchase_price !== 23.49 || spool.diameter_mm !== 1.75
        || spool.brand !== "Ölmühle" || spool.material_name !== "PLA+") && `${said} ${JSON.stringify(spool)}`;
    },
  },
  "a file of Etsy with a line without a product": {
    most: [6, 0],
    async from(farm) {
      await farm.newProduct({ sku: farm.name("E") });
      return "/orders";
    },
    async do(person, farm) {
      const number = farm.name("3").replace(/\W/g, "");
      const titles = ["Sale Date", "Item Name", "Buyer", "Quantity", "Price", "Transaction ID", "Date Shipped", "Ship Name",
        "Order ID", "Variations", "SKU"];
      const row = (order, line, item, sku, shipped) => ["01/05/26", `"${item}, ""red"""`, "ada", 2, "12.50", line, shipped,
        "Ada", order, "", sku].join();
      await person.press("main a", "Import");
      await person.file("main [type=file]", "EtsySoldOrderItems2026-1.csv", [titles.join(),
        row(number, `${number}1`, "Hook", farm.product.sku.toLowerCase(), ""),
        row(number, `${number}2`, `Vase ${number}`, "", ""),
        row(`${number}0`, `${number}3`, "Hook", farm.product.sku, "01/06/26")].join("\r\n"));
      await person.press("main button", "Continue");
      await person.press("main button", "Import 1");
      await person.press("main a", "Those with lines without a product");
      await person.press(`main tr:has-text("${number}") a`);
      const order = await farm.of(person.page, "orders");
      const [line] = order.unassigned_lines;
      return (order.source !== "etsy" || order.items.length !== 1 || order.items[0].product_id !== farm.product.id
        || line.title !== `Vase ${number}, "red"` || line.unit_price !== 12.5) && JSON.stringify(order);
    },
  },
  "a product of two filaments and a part": {
    most: [2, 9],
    async from(farm) {
      await farm.newFilament();
      await farm.newProduct();
      return "/products";
    },
    async do(person, farm) {
      await person.press("main a", "Add a product");
      await person.fill("name", farm.name("Lamp"));
      await person.fill("estimated_print_time_minutes", 95);
      await person.fill("selling_price", 19.5);
      await person.choose("materials[0].filament_id", farm.filament.label);
      await person.fill("materials[0].weight_grams", 40);
      await person.choose("materials[1].filament_id", farm.filament.label);
      await person.fill("materials[1].weight_grams", 5);
      await person.choose("components[0].component_product_id", farm.product.name);
      await person.fill("components[0].quantity", 2);
      await person.press("main button", "Add");
      const made = await farm.of(person.page, "products");
      return (made.materials.length !== 2 || made.components[0].quantity !== 2) && JSON.stringify(made);
    },
  },
  "an order of three products": {
    most: [2, 7],
    async from(farm) {
      await farm.newProduct();
      return "/orders";
    },
    async do(person, farm) {
      await person.press("main a", "Add an order");
      await person.fill("customer", farm.name("Ada"));
      for (const i of [0, 1, 2]) {
        await person.choose(`items[${i}].product_id`, farm.product.name);
        await person.fill(`items[${i}].quantity`, i + 1);
      }
      await person.press("main button", "Add");
      const made = await farm.of(person.page, "orders");
      return made.items.map((item) => item.quantity).join() !== "1,2,3" && JSON.stringify(made);
    },
  },
  "print an item of an order": {
    most: [1, 0],
    async from(farm) {
      await farm.newPrinter();
      return `/orders/${(await farm.newOrder()).id}`;
    },
    async do(person, farm) {
      await person.press("main form[action$='/print'] button");
      const { items: [item] } = await farm.send("GET", `/orders/${farm.order.id}`);
      return item.planned !== item.quantity && JSON.stringify(item);
    },
  },
  "change a plan by hand": {
    most: [2, 1],
    async from(farm) {
      await farm.newPrinter();
      return `/orders/${(await farm.newOrder()).id}/plan`;
    },
    async do(person, farm) {
      person.clicks++;
      await person.visible("main form[action$='/plan'] summary").click();
      await person.choose("runs[0].printer_id", farm.printer.name);
      await person.press("main form[action$='/plan'] button.primary");
      const { items: [run] } = await farm.send("GET", `/production-runs?product_id=${farm.product.id}`);
      return run?.printer_name !== farm.printer.name && JSON.stringify(run);
    },
  },
  "start a run": {
    most: [1, 0],
    async from(farm) {
      await farm.newPrinter();
      await farm.newRun({ status: "pending" });
      return "/queue";
    },
    async do(person, farm) {
      await person.press(`main form[action="/runs/${farm.run.id}/start"] button`);
      const { status } = await farm.send("GET", `/production-runs/${farm.run.id}`);
      return status !== "in_progress" && status;
    },
  },
  "start a run on the board": {
    most: [1, 0],
    async from(farm) {
      await farm.newPrinter();
      await farm.newRun({ status: "pending" });
      return "/runs";
    },
    async do(person, farm) {
      await person.press(`main form[action="/runs/${farm.run.id}/start"] button`);
      const { status } = await farm.send("GET", `/production-runs/${farm.run.id}`);
      return status !== "in_progress" && status;
    },
  },
  "confirm a run": {
    most: [1, 0],
    async from(farm) {
      await farm.newPrinter();
      await farm.newFilament();
      const filaments = await farm.send("GET", "/filaments?limit=1");
      const spool = await farm.post("/spools", { filament_id: filaments.items[0].id });
      await farm.newRun({ status: "in_progress", started_at: "2024-01-15T10:00:00Z", estimated_print_time_hours: 1,
        materials: [{ spool_id: spool.id, estimated_weight_grams: 12 }] });
      return "/";
    },
    async do(person, farm) {
      await person.press(`main form[action="/runs/${farm.run.id}/confirm"] button`);
      const { status, actual_total_filament_grams: grams } = await farm.send("GET", `/production-runs/${farm.run.id}`);
      return (status !== "completed" || grams !== 12) && `${status}, ${grams} g`;
    },
  },
  "a run fails half-way and is planned again": {
    most: [3, 0],
    async from(farm) {
      await farm.newPrinter();
      await farm.newRun({ status: "in_progress" });
      return `/runs/${farm.run.id}`;
    },
    async do(person, farm) {
      await person.open("Failed");
      await person.choose("reason", "Spaghetti");
      await person.press("main button", "Save and plan again");
      const { status } = await farm.send("GET", `/production-runs/${farm.run.id}`);
      const { items } = await farm.send("GET", `/production-runs?status=pending&product_id=${farm.product.id}`);
      return (status !== "failed" || items.length !== 1) && `${status}, ${items.length} runs are planned`;
    },
  },
  "a colleague": {
    most: [3, 2],
    async from() {
      return "/settings";
    },
    async do(person, farm) {
      await person.press("main a[href='/settings/users']");
      await person.fill("email", `colleague-${Date.now()}@farm.example`);
      await person.fill("name", farm.name("Grace"));
      await person.press("main button", "Invite");
      const link = await person.page.inputValue("main .once input");
      return !(link.startsWith(`${base}/password-link/`) && link.length <= 100) && link;
    },
  },
  "a printer's key": {
    most: [1, 0],
    async from(farm) {
      await farm.newPrinter();
      return `/printers/${farm.printer.id}`;
    },
    async do(person, farm) {
      await person.press("main form[action$='/key'] button");
      const { items } = await farm.send("GET", `/api-keys?printer_id=${farm.printer.id}`);
      return !(items.length === 1 && (await person.page.locator("main").innerText()).includes("swk_")) && "no key";
    },
  },
  "the shopping list": {
    most: [1, 0],
    async from() {
      return "/";
    },
    async do(person) {
      await person.press("main a[href^='/stock']");
      return !(await person.page.locator("main h1").innerText()).includes("Stock") && "no stock levels";
    },
  },
  "the report of last month": {
    most: [2, 0],
    async from() {
      return "/";
    },
    async do(person, farm) {
      await person.press("main .today a[href='/reports']");
      await person.press("main a", "Last month");
      const days = await person.page.$$eval("main [type=date]", (all) => all.map((e) => e.value));
      const { time_zone: zone } = await farm.send("GET", "/settings");
      return days.join() !== lastMonth(zone).join() && days.join();
    },
  },
};

// lastMonth returns the first and the last day of the last month.
function lastMonth(timeZone) {
  const [year, month] = new Date().toLocaleDateString("sv", { timeZone }).split("-");
  return [[month - 2, 1], [month - 1, 0]].map((monthAndDay) =>
    new Date(Date.UTC(year, ...monthAndDay)).toISOString().slice(0, 10));
}

// Work is a farm with what the tasks need.
class Work extends Farm {
  constructor(request, tag) {
    super(request);
    this.tag = tag;
    this.made = 0;
  }

  name(what) {
    return `${what} ${this.tag} ${Date.now()}-${this.made++}`;
  }

  async newFilament() {
    const color = this.name("Sky");
    this.filament = await this.post("/filaments", { material_type: "PLA", color, diameter_mm: 1.75,
      net_weight_grams: 1000, price: 20 });
    this.filament.label = `PLA ${color}`;
  }

  async newCatalog() {
    const name = this.name("Galaxy Black");
    this.catalog = { id: name, manufacturer: "Prusament", name, material: "PLA", density: 1.24, weight: 1000,
      spool_weight: 201, diameter: 1.75, color_hex: "3d3e3d", extruder_temp: 215, bed_temp: 60 };
    const headers = { ...this.headers, "Content-Type": "application/jsonl" };
    const response = await this.request.post(base + "/api/v1/filament-catalog/import",
      { headers, data: JSON.stringify(this.catalog) });
    check("the catalog", response.ok(), await response.text());
  }

  async newProduct(more) {
    this.product = await this.post("/products", { name: this.name("Hook"), estimated_print_time_minutes: 60, ...more });
  }

  async newOrder() {
    await this.newProduct();
    this.order = await this.post("/orders", { items: [{ product_id: this.product.id, quantity: 1 }] });
    return this.order;
  }

  async newPrinter() {
    this.printer = await this.post("/printers", { name: this.name("Printer") });
  }

  async newRun(more) {
    await this.newProduct();
    this.run = await this.post("/production-runs", { printer_id: this.printer.id, ...more,
      items: [{ product_id: this.product.id }] });
  }

  // of returns what the page shows, from a collection of the API.
  of(page, collection) {
    return this.send("GET", `/${collection}/${new URL(page.url()).pathname.split("/")[2]}`);
  }
}

async function walk(browser, tag, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await signIn(page);
  const counts = [];
  for (const [name, task] of Object.entries(tasks)) {
    const farm = new Work(context.request, tag);
    await farm.signIn();
    await page.goto(base + await task.from(farm));
    const person = new Person(page);
    const problem = await task.do(person, farm).catch((error) => String(error));
    if (pictures) {
      await page.screenshot({ path: join(pictures, `${tag}-${counts.length}.png`), fullPage: true });
    }
    check(`${tag}: ${name}`, !problem, problem);
    const [clicks, fields] = task.most;
    counts.push(`${name}: ${person.clicks}+${person.fields}`);
    check(`${tag}: ${name}`, person.clicks <= clicks && person.fields <= fields, counts.at(-1));
  }
  await context.close();
  console.log(`ok    ${tag}: ${counts.join("; ")}`);
}

await withBrowser(async (browser) => {
  for (const javaScriptEnabled of [true, false]) {
    for (const [tag, width, height] of [["wide", 1280, 800], ["phone", 390, 844]]) {
      await walk(browser, tag + (javaScriptEnabled ? "" : " without JavaScript"),
        { viewport: { width, height }, javaScriptEnabled });
    }
  }
});
