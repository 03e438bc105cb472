// Tests /docs and /redoc of a running service in a browser.
//
//   node docs.mjs BASE_URL EMAIL PASSWORD [OPERATIONS]
//
// OPERATIONS is the minimum number of operations that each page must show (default 1). The account must exist; the
// script sends only a login and read requests. It needs playwright-core (in node_modules or in the folder
// PLAYWRIGHT_CORE) and Chromium (CHROMIUM, default /usr/bin/chromium). It prints a line per check, and exits with
// status 1 after the first failed one.

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

// open loads a page in a new context. The returned function clean checks that the page had no errors and sent no
// requests to other hosts.
async function open(browser, path) {
  const context = await browser.newContext({ viewport: { width: 1300, height: 1000 } });
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  const strangers = [], broken = [];
  complaints = [];
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.host !== host) strangers.push(request.url());
  });
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => broken.push(`${request.url()} (${request.failure()?.errorText})`));
  page.on("response", (response) => {
    if (response.status() >= 400) broken.push(`${response.url()} (${response.status()})`);
  });

  const response = await page.goto(root + path, { waitUntil: "load" });
  check(`${path} answers 200`, response.status() === 200, `status ${response.status()}`);
  const clean = () => {
    check(`${path} sent no request to another host`, strangers.length === 0, strangers.join(", "));
    check(`${path} loaded all files`, broken.length === 0, broken.join(", "));
    check(`${path} has no error in the console`, complaints.length === 0, complaints.join("\n"));
  };
  return { context, page, clean };
}

async function login() {
  const response = await fetch(`${root}/api/v1/auth/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ email, password }),
  });
  const text = await response.text();
  check("login answers 200", response.status === 200, `status ${response.status}: ${text}`);
  const { access_token: token } = JSON.parse(text);
  check("login gives an access token", typeof token === "string" && token !== "", text);
  return token;
}

async function swagger(browser, token) {
  const { context, page, clean } = await open(browser, "/docs");
  await appears("/docs shows operations", page.locator(".opblock"));
  const operations = await page.locator(".opblock").count();
  check(`/docs shows at least ${least} operations`, operations >= Number(least), `${operations} are there`);
  const errors = page.locator(".errors-wrapper");
  const texts = (await errors.allInnerTexts()).join("\n");
  check("/docs reads the OpenAPI document without errors", (await errors.count()) === 0, texts);
  clean();

  await page.locator(".auth-wrapper .btn.authorize").first().click();
  const dialog = page.locator(".dialog-ux");
  await appears("Authorize opens a dialog", dialog.locator(".modal-ux"));
  check("the dialog asks for bearerAuth", (await dialog.innerText()).includes("bearerAuth"), await dialog.innerText());
  await dialog.locator("input").first().fill(token);
  await dialog.locator("button.authorize").first().click(); // that of bearerAuth
  await appears("the dialog accepts the token", dialog.getByText("Authorized"));
  await dialog.locator(".btn-done").first().click();

  const operation = page.locator(".opblock-get").filter({
    has: page.locator('.opblock-summary-path[data-path="/api/v1/spools"]'),
  });
  check("/docs has one GET /api/v1/spools", (await operation.count()) === 1, `${await operation.count()} are there`);
  await operation.locator(".opblock-summary-control").click();
  await appears("GET /api/v1/spools opens", operation.locator(".opblock-body"));
  const execute = operation.locator("button.execute");
  if ((await execute.count()) === 0) await operation.locator(".try-out__btn").click();
  const [answer] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname.endsWith("/api/v1/spools")),
    execute.click(),
  ]);
  const sent = await answer.request().allHeaders();
  check("the request carries the token", sent.authorization === `Bearer ${token}`, sent.authorization ?? "no header");

  const live = operation.locator(".live-responses-table .response").first();
  await appears("the response is shown", live);
  const status = (await live.locator(".response-col_status").innerText()).trim();
  check("the status shown is 200", status.startsWith("200"), status);
  const shown = await live.locator(".response-col_description").innerText();
  check('the body shown is a list with "items"', /"items"\s*:/.test(shown), shown);
  const { items } = await answer.json();
  check("the response's items are a list", Array.isArray(items), JSON.stringify(items));
  clean();

  await page.reload({ waitUntil: "load" });
  await appears("/docs comes back after a reload", page.locator(".opblock"));
  await appears("a reload keeps the token", page.locator(".auth-wrapper .btn.authorize.locked"));
  clean();

  // Logging out forgets it, and the login operation, with its example, sets one again.
  await page.locator(".auth-wrapper .btn.authorize").first().click();
  await dialog.locator("button", { hasText: "Logout" }).first().click();
  await dialog.locator(".btn-done").first().click();
  await page.reload({ waitUntil: "load" });
  await appears("/docs comes back after another reload", page.locator(".opblock"));
  check("a logout forgets the token", (await page.locator(".auth-wrapper .btn.authorize.locked").count()) === 0);
  const loggingIn = page.locator(".opblock-post").filter({
    has: page.locator('.opblock-summary-path[data-path="/api/v1/auth/login"]'),
  });
  await loggingIn.locator(".opblock-summary-control").click();
  await appears("the login operation opens", loggingIn.locator(".opblock-body"));
  await Promise.all([
    page.waitForResponse((response) => response.url().endsWith("/api/v1/auth/login") && response.status() === 200),
    loggingIn.locator("button.execute").click(),
  ]);
  await appears("a login authorizes", page.locator(".auth-wrapper .btn.authorize.locked"));

  const button = await page.locator(".auth-wrapper .btn.authorize").first().boundingBox();
  const title = await page.locator(".information-container").boundingBox();
  check("Authorize is above the description", button.y < title.y, `${button.y}, ${title.y}`);
  clean();
  await context.close();
}

async function redoc(browser) {
  const { context, page, clean } = await open(browser, "/redoc");
  const heading = page.getByRole("heading", { name: "List spools" });
  await appears('/redoc shows "List spools"', heading);
  const headings = page.locator('[data-section-id*="/operation/"], [data-section-id^="operation/"]');
  const operations = await headings.count();
  check(`/redoc shows at least ${least} operations`, operations >= Number(least), `${operations} are there`);

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
  const token = await login();
  await swagger(browser, token);
  await redoc(browser);
  console.log("all checks passed");
} catch (error) {
  console.error(`FAIL  ${error instanceof CheckFailed ? error.message : error.stack}`);
  process.exitCode = 1;
} finally {
  await browser?.close();
}
