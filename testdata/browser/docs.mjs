// Tests /docs and /redoc of a running service in a browser.
//
//   node docs.mjs BASE_URL EMAIL PASSWORD [OPERATIONS]
//
// OPERATIONS is the minimum number of operations that each page must show (default 1). The account must exist; the
// script sends only logins, refreshes, logouts and read requests. It needs playwright-core (in node_modules or in the
// folder PLAYWRIGHT_CORE) and Chromium (CHROMIUM, default /usr/bin/chromium). It prints a line per check, and exits
// with status 1 after the first failed one.

import { createRequire } from "node:module";
import { resolve } from "node:path";

const [base, email, password, least = "1"] = process.argv.slice(2);
if (!password || !/^https?:\/\//.test(base) || !/^\d+$/.test(least)) {
  console.error("usage: node docs.mjs BASE_URL EMAIL PASSWORD [OPERATIONS]");
  process.exit(2);
}
const root = base.replace(/\/+$/, "");
const host = new URL(root).host;
const timeout = 90_000; // milliseconds; long enough for a busy machine
let complaints = []; // console errors and uncaught exceptions of the open page

const { PLAYWRIGHT_CORE, CHROMIUM = "/usr/bin/chromium" } = process.env;
let chromium;
try {
  ({ chromium } = createRequire(import.meta.url)(PLAYWRIGHT_CORE ? resolve(PLAYWRIGHT_CORE) : "playwright-core"));
} catch (error) {
  console.error(`playwright-core is needed (npm install playwright-core, or set PLAYWRIGHT_CORE): ${error.message}`);
  process.exit(2);
}

class CheckFailed extends Error {}

// check prints the result of a check, or throws. The detail is what was found instead.
function check(name, ok, detail = "") {
  if (!ok) throw new CheckFailed(detail ? `${name}: ${detail}` : name);
  console.log(`ok    ${name}`);
}

// appears checks that a locator finds something visible. The detail of a failure includes the console's errors.
async function appears(name, locator) {
  const seen = await locator
    .first()
    .waitFor({ state: "visible", timeout })
    .then(() => true, () => false);
  check(name, seen, [`not visible after ${timeout / 1000} s`, ...complaints].join("\n"));
}

// open loads a page in a new context. The returned function clean checks that the page had no errors or warnings
// and sent no requests to other hosts.
async function open(browser, path, viewport = { width: 1300, height: 1000 }) {
  const context = await browser.newContext({ viewport });
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  const strangers = [], broken = [];
  complaints = [];
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.host !== host) strangers.push(request.url());
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => {
    if (request.url().endsWith("/auth/logout")) return; // Chromium says so of a 204; swagger checks the status
    broken.push(`${request.url()} (${request.failure()?.errorText})`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) broken.push(`${response.url()} (${response.status()})`);
  });

  const response = await page.goto(root + path, { waitUntil: "load" });
  check(`${path} answers 200`, response.status() === 200, `status ${response.status()}`);
  const clean = () => {
    check(`${path} sent no request to another host`, strangers.length === 0, strangers.join(", "));
    check(`${path} loaded all files`, broken.length === 0, broken.join(", "));
    check(`${path} has no message in the console`, complaints.length === 0, complaints.join("\n"));
  };
  return { context, page, clean };
}

// lists opens each operation that lists something, and executes it as it stands: the farm has spools, products, runs and
// orders, so that a parameter that the page filled in would show.
async function lists(page) {
  const api = await (await page.request.get(root + "/openapi.json")).json();
  const all = Object.entries(api.paths).filter(([path, { get }]) => get && !path.includes("{") &&
    get.responses[200]?.content?.["application/json"]?.example?.items);
  check("there are lists", all.length > 15, `${all.length}`);
  for (const [path, { get }] of all) {
    const operation = page.locator(".opblock-get").filter({
      has: page.locator(`.opblock-summary-path[data-path="${path}"]`),
    });
    if ((await operation.count()) === 0) await page.locator(`.opblock-tag[data-tag="${get.tags[0]}"]`).click();
    if ((await operation.locator(".opblock-body").count()) === 0) {
      await operation.locator(".opblock-summary-control").click();
    }
    const [response] = await Promise.all([
      page.waitForResponse((r) => new URL(r.url()).pathname === path),
      operation.locator("button.execute").click(),
    ]);
    const body = await response.json();
    check(`${path} answers 200`, response.status() === 200, JSON.stringify(body));
    const some = ["spools", "products", "production-runs", "orders"].some((name) => path === `/api/v1/${name}`);
    check(`${path} is a page as it stands`, body.items.length > 0 || !some, `total ${body.total}: ${response.url()}`);
    await page.locator(`.opblock-tag[data-tag="${get.tags[0]}"]`).click(); // closed, for a small page
  }
}

// follows checks that the page gets the background of the mode of the browser, also after the mode has changed.
async function follows(page, path) {
  for (const [colorScheme, light] of [["dark", false], ["light", true]]) {
    await page.emulateMedia({ colorScheme });
    const right = await page.waitForFunction((light) =>
      Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]) > 128 === light, light)
      .then(() => true, () => false);
    check(`${path} is ${colorScheme} in ${colorScheme} mode`, right);
  }
}

// measures checks what a visitor sees first on a screen of this size, and returns the links of the introduction.
async function measures(browser, width, height) {
  const { context, page, clean } = await open(browser, "/docs", { width, height });
  const tag = page.locator(".opblock-tag");
  await appears(`/docs shows tags at ${width}x${height}`, tag);
  const first = await tag.first().boundingBox();
  check(`at ${width}x${height} the first tag is on the first screen`, first.y + first.height <= height, `${first.y}`);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(`at ${width}x${height} nothing is wider than the screen`, overflow <= 0, `${overflow} px`);
  check("the tags are closed", (await page.locator(".opblock-tag[data-is-open=true]").count()) === 0);
  check("no operation is open", (await page.locator('.opblock-summary-path[data-path^="/api"]').count()) === 0);
  const links = await page.locator(".info a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
  clean();
  await context.close();
  return links.filter((link) => link.startsWith("redoc#"));
}

// execute sends the request of GET /api/v1/spools, which is open, and returns it and its response.
async function execute(page) {
  const operation = page.locator(".opblock-get").filter({
    has: page.locator('.opblock-summary-path[data-path="/api/v1/spools"]'),
  });
  if ((await operation.count()) === 0) await page.locator('.opblock-tag[data-tag="spools"]').click();
  if ((await operation.locator(".opblock-body").count()) === 0) {
    await operation.locator(".opblock-summary-control").click();
  }
  const [response] = await Promise.all([
    page.waitForResponse((r) => new URL(r.url()).pathname.endsWith("/api/v1/spools")),
    operation.locator("button.execute").click(),
  ]);
  return { operation, response, sent: await response.request().allHeaders() };
}

async function swagger(browser) {
  const { context, page, clean } = await open(browser, "/docs");
  await appears("/docs shows tags", page.locator(".opblock-tag"));
  const errors = page.locator(".errors-wrapper");
  const texts = (await errors.allInnerTexts()).join("\n");
  check("/docs reads the OpenAPI document without errors", (await errors.count()) === 0, texts);

  // The filter finds operations, and opens their tags.
  const filter = page.locator(".operation-filter-input");
  const paths = page.locator('.opblock-summary-path[data-path^="/api"]');
  await filter.fill("/API/v1/");
  await appears("the filter shows operations", paths);
  const operations = await paths.count();
  check(`the filter finds at least ${least} operations`, operations >= Number(least), `${operations} are there`);
  await filter.fill("deduct filament");
  await page.waitForFunction((n) => document.querySelectorAll('.opblock-summary-path[data-path^="/api"]').length < n,
    operations);
  const found = await paths.evaluateAll((all) => all.map((e) => e.dataset.path));
  check("the filter leaves what it finds", found.includes("/api/v1/spools/{id}/deduct") && found.length < 5, `${found}`);
  await filter.fill("");
  await page.waitForFunction(() => !document.querySelector('.opblock-summary-path[data-path^="/api"]'));

  // The login, which a reload keeps.
  const answered = (path) => page.waitForResponse((r) => new URL(r.url()).pathname === `/api/v1/auth/${path}`);
  const login = async () => {
    await page.fill("#login [name=email]", email);
    await page.fill("#login [name=password]", password);
    const [response] = await Promise.all([answered("login"), page.click("#login button")]);
    check("the login answers 200", response.status() === 200, `${response.status()}`);
    await appears("the page shows who is logged in", page.locator("#account", { hasText: email }));
    return (await response.json()).access_token;
  };
  const token = await login();
  check("the password is forgotten", (await page.inputValue("#login [name=password]")) === "");
  const kept = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));
  check("the password is not stored", !kept.includes(password), kept);
  const { operation, response, sent } = await execute(page);
  check("the request carries the token", sent.authorization === `Bearer ${token}`, sent.authorization ?? "no header");
  const live = operation.locator(".live-responses-table .response").first();
  await appears("the response is shown", live);
  const status = (await live.locator(".response-col_status").innerText()).trim();
  check("the status shown is 200", status.startsWith("200"), status);
  const shown = await live.locator(".response-col_description").innerText();
  check('the body shown is a list with "items"', /"items"\s*:/.test(shown), shown);
  const { items } = await response.json();
  check("the response's items are a list", Array.isArray(items), JSON.stringify(items));
  await lists(page);
  await follows(page, "/docs");
  await page.reload({ waitUntil: "load" });
  await appears("a reload keeps the login", page.locator("#account", { hasText: email }));
  await appears("a reload keeps the token", page.locator(".auth-wrapper .btn.authorize.locked"));

  // A token that is about to expire is replaced.
  await page.evaluate(() => {
    const stored = JSON.parse(sessionStorage.getItem("login"));
    sessionStorage.setItem("login", JSON.stringify({ ...stored, expires: 0 }));
  });
  const [refresh, later] = await Promise.all([answered("refresh"), execute(page)]);
  const { access_token: newer } = await refresh.json();
  check("the request carries a new token", newer && later.sent.authorization === `Bearer ${newer}`, newer);
  check("the login remains", await page.locator("#account").isVisible());

  // A key replaces the login, because the service rejects a request with both.
  const authorize = page.locator(".auth-wrapper .btn.authorize").first();
  const dialog = page.locator(".dialog-ux");
  const [ended] = await Promise.all([
    answered("logout"),
    (async () => {
      await authorize.click();
      await appears("Authorize opens a dialog", dialog.locator(".modal-ux"));
      const key = dialog.locator(".auth-container").filter({ hasText: "X-API-Key" });
      await key.locator("input").fill("swk_a_key");
      await key.locator("button.authorize").click();
    })(),
  ]);
  check("the session ends", ended.status() === 204, `${ended.status()}`);
  await dialog.locator(".btn-done").first().click();
  const authorization = await page.evaluate(() => JSON.parse(sessionStorage.getItem("authorization")));
  check("only the key remains", Object.keys(authorization).join() === "apiKeyAuth", JSON.stringify(authorization));
  await appears("the form is back", page.locator("#login"));

  // The login replaces the key, and logging out ends the session for good.
  const third = await login();
  const again = await execute(page);
  check("the token replaces the key", again.sent.authorization === `Bearer ${third}` && !again.sent["x-api-key"]);
  const [logout] = await Promise.all([answered("logout"), page.click("#account button")]);
  check("the logout answers 204", logout.status() === 204, `${logout.status()}`);
  await page.reload({ waitUntil: "load" });
  await appears("after a logout and a reload, the form is there", page.locator("#login"));
  check("a logout forgets the token", (await page.locator(".auth-wrapper .btn.authorize.locked").count()) === 0);

  // The login operation, with its example, logs in too.
  await page.locator('.opblock-tag[data-tag="auth"]').click();
  const loggingIn = page.locator(".opblock-post").filter({
    has: page.locator('.opblock-summary-path[data-path="/api/v1/auth/login"]'),
  });
  await loggingIn.locator(".opblock-summary-control").click();
  await Promise.all([answered("login"), loggingIn.locator("button.execute").click()]);
  await appears("the login operation authorizes", page.locator(".auth-wrapper .btn.authorize.locked"));
  clean();

  await page.click("#account button");
  await page.fill("#login [name=email]", email);
  await page.fill("#login [name=password]", "a wrong password");
  await page.click("#login button"); // the browser reports the 401 in the console
  await appears("a wrong password is shown", page.locator("#message", { hasText: "Incorrect email or password" }));
  await context.close();
}

async function redoc(browser, links) {
  const { context, page, clean } = await open(browser, "/redoc");
  const heading = page.getByRole("heading", { name: "List spools" });
  await appears('/redoc shows "List spools"', heading);
  const headings = page.locator('[data-section-id*="/operation/"], [data-section-id^="operation/"]');
  const operations = await headings.count();
  check(`/redoc shows at least ${least} operations`, operations >= Number(least), `${operations} are there`);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  check("/redoc is shorter than 1,200 px per operation", height < 1200 * operations, `${height} for ${operations}`);
  for (const link of links) {
    const section = page.locator(`[data-section-id="${link.replace("redoc#", "")}"]`);
    check(`the link ${link} leads to a section`, (await section.count()) === 1);
  }

  const samples = page.locator('.react-tabs__tab:text-is("curl")');
  check("/redoc has a curl sample for each operation", (await samples.count()) >= Number(least),
    `${await samples.count()}`);
  const deduct = page.locator('[id="operation/deductSpool"]');
  const tab = deduct.locator('.react-tabs__tab:text-is("curl")');
  await tab.scrollIntoViewIfNeeded();
  await tab.click();
  const sample = await deduct.locator(".react-tabs__tab-panel--selected").first().innerText();
  for (const part of [`curl -X POST ${root}/api/v1/spools/`, "Authorization: Bearer $TOKEN", '"weight_grams": 45.5']) {
    check(`the sample has ${part}`, sample.includes(part), sample);
  }
  await follows(page, "/redoc");

  await page.getByPlaceholder("Search...").fill("spools");
  await appears("/redoc finds operations by search", page.locator('[data-role="search:results"] [role="menuitem"]'));
  clean();
  await context.close();
}

let browser;
try {
  browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  const links = await measures(browser, 1280, 800);
  check("the introduction links to sections", links.length >= 5, `${links}`);
  await measures(browser, 390, 844);
  await swagger(browser);
  await redoc(browser, links);
  console.log("all checks passed");
} catch (error) {
  console.error(`FAIL  ${error instanceof CheckFailed ? error.message : error.stack}`);
  process.exitCode = 1;
} finally {
  await browser?.close();
}
