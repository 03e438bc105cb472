// Walks through a farm's day on the pages of a running service, by clicking only, and by keys only.
//
//   node pages.mjs BASE_URL EMAIL PASSWORD [WALK]
//
// The account must exist and be an admin. The script creates a filament, spools, a product, an order, a run and an API
// key. It walks three times: with a wide window, on a dark phone without JavaScript, and without a mouse. Then it
// invites a user with a password link, chooses and drops what forms take, opens all pages of things with long names in
// windows of four widths, and scans labels on a phone. WALK is one of wide, phone, keys, invite, help, long and scan,
// to do only that. It needs playwright-core and Chromium, as docs.mjs does. It prints a line per walk, and exits with
// status 1 after the first failed check.

import { createRequire } from "node:module";
import { resolve } from "node:path";

const [base, email, password, only] = process.argv.slice(2);
if (!password || !/^https?:\/\//.test(base)) {
  console.error("usage: node pages.mjs BASE_URL EMAIL PASSWORD [WALK]");
  process.exit(2);
}
const { PLAYWRIGHT_CORE, CHROMIUM = "/usr/bin/chromium" } = process.env;
const { chromium } = createRequire(import.meta.url)(PLAYWRIGHT_CORE ? resolve(PLAYWRIGHT_CORE) : "playwright-core");

function check(name, ok, detail = "") {
  if (!ok) throw new Error(`${name}: ${detail}`);
}

// walk is a farm's day in a browser with the options. Tag makes its names different from those of other walks.
async function walk(browser, tag, options, keys) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000); // long enough for a busy machine
  const complaints = [];
  page.on("console", (message) => {
    if (!message.text().includes("status of 422")) complaints.push(message.text()); // a form that is refused below
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(base + "/")) complaints.push(`a request for ${request.url()}`);
  });
  const narrow = options.viewport.width < 700;

  // settled checks what all pages have in common.
  const settled = async () => {
    await page.waitForLoadState("load");
    const wider = options.javaScriptEnabled === false ? 0 :
      await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(page.url(), wider <= 0, `the page is ${wider} pixels too wide`);
    check(page.url(), complaints.length === 0, complaints.join("\n"));
  };
  // reach moves the focus to an element with Tab, as somebody without a mouse does.
  const reach = async (selector) => {
    const element = page.locator(selector).first();
    await element.waitFor();
    const found = () => element.evaluate((e) => e === document.activeElement);
    for (let i = 0; !await found(); i++) {
      check(page.url(), i < 300, `Tab does not reach ${selector}`);
      await page.keyboard.press("Tab");
    }
  };
  // pressed presses a key that leads to another page.
  const pressed = async (key) => {
    await Promise.all([page.waitForNavigation(), page.keyboard.press(key)]);
    await settled();
  };
  const click = async (selector) => {
    if (keys) {
      await reach(selector);
      await pressed("Enter");
      return;
    }
    await page.click(selector);
    await settled();
  };
  // add opens the form of something new.
  const add = (selector) => keys ? pressed("n") : click(selector);
  const visit = async (name) => {
    if (narrow) await click("text=Menu");
    await click(`nav >> text="${name}"`);
  };
  const shows = async (text) => {
    const body = (await page.textContent("main")).replace(/\s+/g, " ");
    check(page.url(), body.includes(text), `does not show ${text}: ${body}`);
  };
  const open = async (name) => {
    if (!keys) return page.click(`summary:has-text("${name}")`);
    await reach(`summary:has-text("${name}")`);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement.matches("details input")); // ready for a scale
  };
  const fill = async (name, value) => {
    const picker = `[data-pick]:has([type=hidden][name="${name}"]) label input`;
    const selector = `main form >> :is([name="${name}"], ${picker}):visible`;
    if (!keys) return page.fill(selector, value);
    await reach(selector);
    await page.keyboard.press("Control+A");
    await page.keyboard.type(value);
  };
  await page.goto(base + "/");
  await fill("email", email);
  await fill("password", password);
  await click("button:has-text('Sign in')");
  await shows("Printing");
  if (keys) {
    await page.keyboard.press("?");
    await page.waitForSelector("dialog >> text=Next row");
    await page.keyboard.press("n"); // does nothing behind the help
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "hidden" });
  }

  await visit("Filaments");
  await add("text=/Add (a|the first) filament/");
  await fill("color", `Teal ${tag}`);
  await fill("color_hex", "#008080");
  await fill("vendor", `Vendor ${tag}`);
  await fill("net_weight_grams", "1000");
  await fill("spool_weight_grams", "200");
  await fill("price", "20");
  await click("button:has-text('Add')");
  await shows(`PLA Teal ${tag}`);
  await add("text=Add spools");
  await fill("quantity", "10");
  await fill("location", `Shelf ${tag}`);
  await click("button:has-text('Add')");
  await shows(`Shelf ${tag}`);
  if (keys) {
    await page.keyboard.press("/");
    await page.keyboard.insertText(`Teal ${tag}`); // at once: after a pause, the page would search for what it has
    await page.waitForURL((url) => url.searchParams.get("search") === `Teal ${tag}`); // without Enter
    await settled();
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("k");
    await pressed("Enter");
  } else {
    await click(`.name a:has-text("Teal ${tag}") >> nth=0`);
  }
  const number = (await page.textContent(".spool-head .muted")).match(/#(\d+)/)[1];
  await open("Weigh");
  await fill("gross_grams", "900");
  await click("button:has-text('Save the weight')");
  await shows("700 g");
  await open("Deduct");
  await fill("weight_grams", "9000");
  await click(".actions form button:has-text('Deduct')");
  await shows("The spool has 700 g left");
  await page.waitForSelector(".problem:focus"); // the summary of the errors
  await page.locator(".problem a").press("Enter");
  await page.waitForSelector("[name=weight_grams]:focus");
  await fill("weight_grams", "100");
  await click(".actions form button:has-text('Deduct')");
  await shows("600 g");

  await visit("Printers");
  await add("text=/Add (a|the first) printer/");
  await fill("name", `Printer ${tag}`);
  await click("button:has-text('Add')");
  await fill("spool_number", `#${number}`);
  await click("button:has-text('Load')");
  await shows(`#${number} PLA Teal ${tag}`);

  await visit("Products");
  await add("text=/Add (a|the first) product/");
  await fill("name", `Hook ${tag}`);
  await fill("pieces_per_plate", "4");
  await click("button:has-text('Add')");
  await open("Add a material");
  await fill("color", `Teal ${tag}`);
  await fill("weight_grams", "25");
  await click("form.line:has([name=weight_grams]) button:not([name])");
  await shows("0.50");

  await visit("Orders");
  await add("text=Add an order");
  await fill("customer", `Ada ${tag}`);
  await click("button:has-text('Add')");
  await fill("product_id", `Hook ${tag}`);
  await fill("quantity", "4");
  await click("form.line button:not([name])");
  await shows("There is enough filament.");
  await click("td >> text=Print");
  await shows("1 run is planned.");
  await click(`.rows a:has-text("4 × Hook ${tag}")`);
  await click("button:has-text('Start')");
  await shows("Printing");
  await visit("Today");
  await click(`text="4 × Hook ${tag}"`);
  await open("Confirm");
  await fill("materials[0].actual_weight_grams", "110,5");
  await fill("items[0].successful_quantity", "3");
  await fill("items[0].failed_quantity", "1");
  await click(".actions form button:has-text('Confirm')");
  await shows("Completed");
  await page.goto(`${base}/s/${number}`);
  await settled();
  await shows("490 g");

  await visit("Stock levels");
  await add("text=/Add (a|the first) level/");
  await fill("color", `Teal ${tag}`);
  await fill("minimum_grams", "50000");
  await click("button:has-text('Add')");
  await shows(`PLA Teal ${tag}`);
  await visit("Reports");
  await shows(`PLA Teal ${tag}`);
  await visit("Settings");
  await click(".tabs >> text=API keys");
  await fill("name", `Key ${tag}`);
  await click("button:has-text('Create a key')");
  await shows("[spoolman] server: http");
  if (narrow) await page.click("text=Menu");
  await click("button:has-text('Sign out')");
  await page.goto(base + "/spools");
  await settled();
  check("after the sign-out", page.url().includes("/sign-in"), page.url());
  await context.close();
  console.log(`ok    ${tag}`);
}

// invite creates a user and a password link, with which the user sets a password, once.
async function invite(browser) {
  const admin = await (await browser.newContext()).newPage();
  const user = await (await browser.newContext()).newPage();
  const address = `bob-${Date.now()}@farm.example`, secret = "a long and new phrase";
  const signIn = async (page, email, password) => {
    await page.goto(base + "/sign-in");
    await page.fill("[name=email]", email);
    await page.fill("[name=password]", password);
    await page.click("button:has-text('Sign in')");
    await page.waitForSelector("nav >> text=Spools");
  };
  const set = async (link, password) => {
    await user.goto(link);
    await user.fill("[name=new_password]", password);
    await user.click("button:has-text('Set the password')");
  };
  for (const page of [admin, user]) page.setDefaultTimeout(60_000); // long enough for a busy machine
  await signIn(admin, email, password);
  await admin.goto(base + "/settings/users");
  await admin.fill("[name=email]", address);
  await admin.fill("[name=name]", "Bob");
  await admin.click("button:has-text('Invite')");
  const link = await admin.inputValue(".once input");
  check("the link", link.startsWith(base + "/password-link/"), link);

  await set(link, secret);
  await user.waitForSelector("text=Your password is set");
  check("the e-mail is filled in", await user.inputValue("[name=email]") === address);
  await set(link, "the phrase of somebody else");
  await user.waitForSelector("text=This link is not valid");
  await signIn(user, address, secret);
  for (const page of [admin, user]) await page.context().close();
  console.log("ok    password link");
}

// help checks that new spools show what they get from the chosen filament, and that a file that is dropped anywhere is
// taken.
async function help(browser) {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(60_000); // long enough for a busy machine
  await page.goto(base + "/sign-in");
  await page.fill("[name=email]", email);
  await page.fill("[name=password]", password);
  await page.click("button:has-text('Sign in')");
  await page.waitForSelector(".signed-in");
  const color = `Shown ${Date.now()}`;
  await page.goto(base + "/filaments/new");
  for (const [name, value] of [["color", color], ["net_weight_grams", "750"], ["spool_weight_grams", "210"],
    ["price", "31.5"]]) await page.fill(`[name=${name}]`, value);
  await page.click("button:text-is('Add')");
  await page.goto(base + "/spools/new");
  await page.getByRole("combobox").fill(color);
  await page.getByRole("option").first().click();
  await page.waitForSelector("[name=net_weight_grams][placeholder='750']");
  for (const [name, value] of [["remaining_weight_grams", "750"], ["spool_weight_grams", "210"],
    ["purchase_price", "31.5"]]) {
    check(`the ${name} of the filament`, await page.getAttribute(`[name=${name}]`, "placeholder") === value);
  }
  await page.goto(base + "/files");
  await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["Color;Material\nRed;PLA"], "spools.csv"));
    const drop = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer });
    document.querySelector("h1").dispatchEvent(drop);
  });
  check("a dropped file is taken", await page.$eval("[type=file]", (e) => e.files[0]?.name) === "spools.csv");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  check("the file is read", (await page.textContent("main")).includes("Red"), page.url());
  await page.context().close();
  console.log("ok    inherited values, a dropped file");
}

// long creates things with long names and large numbers, and checks that all their pages fit in the window.
async function long(browser) {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(60_000); // long enough for a busy machine
  const send = async (path, data, headers, method = "POST") => {
    const response = await page.request.fetch(base + "/api/v1" + path, { method, data, headers });
    check(path, response.ok(), await response.text());
    return response.json();
  };
  const { access_token: token } = await send("/auth/login", { email, password });
  const as = { Authorization: `Bearer ${token}` };
  const name = "Donaudampfschiff".repeat(13).slice(0, 200), short = `${Date.now()}${name}`.slice(0, 100);
  const vendor = await send("/vendors", { name: short, notes: name }, as);
  const filament = await send("/filaments", { vendor_id: vendor.id, material_type: "PLA", color: short, name: short,
    diameter_mm: 1.75, net_weight_grams: 99999, price: 99999.99, notes: name }, as);
  const spool = await send("/spools", { filament_id: filament.id, location: short, lot_number: short, supplier: short,
    notes: name, purchase_price: 99999.99 }, as);
  const product = await send("/products", { name, category: short, description: name,
    materials: [{ material_type: "PLA", color: short, weight_grams: 99999 }] }, as);
  const order = await send("/orders", { customer: name, reference: short, source: short, notes: name,
    due_date: "2024-02-01", items: [{ product_id: product.id, quantity: 3 }] }, as);
  const printer = await send("/printers", { name: short, model: short, location: short, notes: name }, as);
  await send(`/printers/${printer.id}/slots/1`, { spool_id: spool.id }, as, "PUT");
  const runs = [];
  for (const hours of [2, 0.001, 9999]) {
    runs.push(await send("/production-runs", { printer_id: printer.id, notes: name, estimated_print_time_hours: hours,
      items: [{ product_id: product.id, quantity: 9999 }],
      materials: [{ spool_id: spool.id, estimated_weight_grams: 33000 }] }, as));
  }
  await send(`/production-runs/${runs[0].id}/start`, undefined, as);
  await send("/stock-levels", { material_type: "PLA", color: short, brand: short, minimum_grams: 999999999 }, as);

  await page.goto(base + "/sign-in");
  await page.fill("[name=email]", email);
  await page.fill("[name=password]", password);
  await page.click("button:has-text('Sign in')");
  await page.waitForSelector("nav >> text=Spools");
  const paths = ["/", "/account", `/search?q=${short}`, "/spools", "/spools?sort=filament", "/spools/new",
    `/spools/${spool.id}`, `/spools/${spool.id}/edit`, `/labels?size=a4&id=${spool.id}`, "/filaments",
    `/filaments/${filament.id}`, `/filaments/${filament.id}/edit`, "/vendors", `/vendors/${vendor.id}/edit`,
    "/printers", `/printers/${printer.id}`, "/queue", "/products", `/products/${product.id}?quantity=20`, "/runs",
    "/runs/all", "/runs/new", ...runs.map(({ id }) => `/runs/${id}`), "/orders", `/orders/${order.id}`,
    `/orders/${order.id}/edit`, `/orders/${order.id}/plan`, "/stock", "/reports", "/reports?by=printer", "/reports/margins?by=customer",
    "/settings", "/settings/users", "/settings/sign-on", "/settings/keys", "/settings/fields", "/settings/webhooks",
    "/files"];
  const wide = [];
  for (const width of [390, 768, 1280, 2560]) {
    await page.setViewportSize({ width, height: 844 });
    for (const path of paths) {
      const response = await page.goto(base + path);
      check(path, response.ok(), response.status());
      const wider = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.scrollingElement;
        return scrollWidth - clientWidth;
      });
      if (wider > 0) wide.push(`${path} is ${wider} pixels too wide for ${width}`);
    }
  }
  check("long names", wide.length === 0, wide.join("\n"));
  await page.context().close();
  console.log("ok    long names");
}

// scan opens spools with the bar of a phone: with a camera, whose labels a substitute for the decoder reads, and by
// number. The bar does not cover what has the focus.
async function scan(browser) {
  const options = { viewport: { width: 390, height: 844 }, permissions: ["camera"], hasTouch: true };
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(60_000); // long enough for a busy machine
  await page.addInitScript(() => {
    window.BarcodeDetector = class {
      async detect(video) {
        return video.videoWidth > 0 && sessionStorage.label ? [{ rawValue: sessionStorage.label }] : [];
      }
    };
  });
  await page.goto(base + "/sign-in");
  await page.fill("[name=email]", email);
  await page.fill("[name=password]", password);
  await page.click("button:has-text('Sign in')");
  const bar = page.locator("nav.foot");
  await bar.getByText("Scan").click();
  await page.waitForSelector("video:visible");
  await page.evaluate(() => { sessionStorage.label = "WEB+SPOOLMAN:S-1"; });
  await page.waitForSelector(".spool-head >> text=#1 ");
  await page.evaluate(() => { sessionStorage.label = ""; });
  await bar.getByText("Scan").click();
  await page.fill("main [name=q]", "#2");
  await page.click("main button");
  await page.waitForSelector(".spool-head >> text=#2 ");
  for (const path of [new URL(page.url()).pathname, "/spools", "/filaments/new", "/settings"]) {
    await page.goto(base + path);
    const covered = await page.evaluate(() => {
      const top = document.querySelector("nav.foot").getBoundingClientRect().top;
      return [...document.querySelectorAll("main :is(a, button, input, select, textarea, summary)")].filter((e) => {
        e.focus();
        const focused = document.activeElement === e;
        document.activeElement.blur();
        const box = e.getBoundingClientRect(); // of a textarea, browsers show the line with the cursor
        return focused && (e.tagName === "TEXTAREA" ? box.top + 40 : box.bottom) > top + 1;
      }).map((e) => e.outerHTML.slice(0, 80));
    });
    check(path, covered.length === 0, `the bar covers ${covered.join(", ")}`);
  }
  await page.context().close();
  console.log("ok    scan");
}

const browser = await chromium.launch({ executablePath: CHROMIUM,
  args: ["--no-sandbox", "--use-fake-device-for-media-stream"] });
const walks = {
  wide: () => walk(browser, "wide", { viewport: { width: 1280, height: 800 } }),
  phone: () => walk(browser, "phone", {
    viewport: { width: 390, height: 844 }, colorScheme: "dark", javaScriptEnabled: false,
  }),
  keys: () => walk(browser, "keys", { viewport: { width: 1280, height: 800 } }, true),
  invite: () => invite(browser),
  help: () => help(browser),
  long: () => long(browser),
  scan: () => scan(browser),
};
try {
  for (const name in walks) {
    if (!only || name === only) await walks[name]();
  }
} catch (error) {
  console.error(`FAIL  ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
