// Walks through a farm's day on the pages of a running service, by clicking only, and by keys only.
//
//   node pages.mjs BASE_URL EMAIL PASSWORD [WALK]
//
// The account must exist and be an admin. The script creates a filament, spools, a product, an order, a run and an API
// key. It walks three times: with a wide window, on a dark phone without JavaScript, and without a mouse. Then it invites
// a user with a password link. WALK is one of wide, phone, keys and invite, to do only that. It needs playwright-core
// and Chromium, as docs.mjs does. It prints a line per walk, and exits with status 1 after the first failed check.

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
    const selector = `main form >> [name="${name}"]:visible`;
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
    await page.keyboard.type(`Teal ${tag}`);
    await page.waitForURL(/search=Teal/); // without Enter
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
  await click("button:has-text('Add')");
  await fill("color", `Teal ${tag}`);
  await fill("weight_grams", "25");
  await click("form.line:has([name=weight_grams]) button");
  await shows("0.50");

  await visit("Orders");
  await add("text=Add an order");
  await fill("customer", `Ada ${tag}`);
  await click("button:has-text('Add')");
  if (keys) {
    await reach("[name=product_id]");
    await page.keyboard.type(`Hook ${tag}`);
  } else {
    await page.selectOption("[name=product_id]", { label: `Hook ${tag}` });
  }
  await fill("quantity", "4");
  await click("form.line button");
  await shows("There is enough filament.");
  await click("td >> text=Print");
  await fill("printer_name", `Printer ${tag}`);
  await fill("materials[0].spool_number", number);
  await fill("materials[0].estimated_weight_grams", "100");
  await click("button:has-text('Plan the run')");
  await click("button:has-text('Start')");
  await shows("In progress");
  await visit("Today");
  await click(`text="Printer ${tag}"`);
  await open("Complete");
  await fill("materials[0].actual_weight_grams", "110,5");
  await fill("items[0].successful_quantity", "3");
  await fill("items[0].failed_quantity", "1");
  await click("button:has-text('Deduct and complete')");
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
  await admin.goto(base + "/settings");
  await admin.click("text=Add a user");
  await admin.fill("[name=name]", "Bob");
  await admin.fill("[name=email]", address);
  await admin.fill("[name=password]", "nobody will ever know this");
  await admin.click("main form button.primary");
  await admin.click(`tr:has-text("${address}") >> button:has-text("Password link")`);
  const link = await admin.textContent(".once pre");
  check("the link", link.startsWith(base + "/password-link/"), link);

  await set(link, secret);
  await user.waitForURL("**/sign-in");
  await set(link, "the phrase of somebody else");
  await user.waitForSelector("text=This link is not valid");
  await signIn(user, address, secret);
  for (const page of [admin, user]) await page.context().close();
  console.log("ok    password link");
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const walks = {
  wide: () => walk(browser, "wide", { viewport: { width: 1280, height: 800 } }),
  phone: () => walk(browser, "phone", {
    viewport: { width: 390, height: 844 }, colorScheme: "dark", javaScriptEnabled: false,
  }),
  keys: () => walk(browser, "keys", { viewport: { width: 1280, height: 800 } }, true),
  invite: () => invite(browser),
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
