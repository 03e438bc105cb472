// Audits all pages of a running service: axe-core finds no violation of WCAG 2.2 AA or of its best practices, the HTML
// is valid, no page asks another origin for something, and the console is silent. Printed labels stand where the paper
// has them.
//
//   node audit.mjs BASE_URL EMAIL PASSWORD
//
// The account must exist and be an admin. The script follows the links from the first page, and sends each form of a
// new resource empty. Pages that differ only in ids or in their queries are one page. Each is audited in a wide light
// window and on a dark phone. It needs what docs.mjs needs, Java, and the npm packages axe-core and vnu-jar in the
// folder PAGE_TOOLS. It prints a line, and exits with status 1 after violations.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [base, email, password] = process.argv.slice(2);
const { PAGE_TOOLS, PLAYWRIGHT_CORE, CHROMIUM = "/usr/bin/chromium" } = process.env;
if (!password || !PAGE_TOOLS) {
  console.error("usage: PAGE_TOOLS=FOLDER node audit.mjs BASE_URL EMAIL PASSWORD");
  process.exit(2);
}
const { chromium } = createRequire(import.meta.url)(PLAYWRIGHT_CORE ? resolve(PLAYWRIGHT_CORE) : "playwright-core");
const axe = readFileSync(join(PAGE_TOOLS, "node_modules/axe-core/axe.min.js"), "utf8");
const standards = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const problems = new Set();
const folder = mkdtempSync(join(tmpdir(), "pages-"));
const files = [];

// pattern returns what the addresses of one page have in common.
function pattern(address) {
  return new URL(address).pathname.replace(/\/[0-9a-f]{8}-[0-9a-f-]{27}/g, "/ID");
}

async function newPage(browser, options) {
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(60_000); // long enough for a busy machine
  page.on("console", (message) => {
    // Chromium reports the status of the forms that are sent empty, and of the pages that do not exist.
    if (!/status of 4(04|22)/.test(message.text())) problems.add(`${page.url()}: console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.add(`${page.url()}: ${error}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(base + "/")) problems.add(`${page.url()}: requests ${request.url()}`);
  });
  await page.addInitScript(axe); // the policy of the pages permits no script element
  return page;
}

// audit runs axe-core in the page, with all that can be opened open. Axe-core accepts a link without an underline in a
// text that is shorter than the link. Here, it is a violation for any text, because the texts depend on the data and on
// the time of day.
async function audit(page, name) {
  const violations = await page.evaluate(async (standards) => {
    for (const details of document.querySelectorAll("details")) {
      details.removeAttribute("name");
      details.open = true;
    }
    for (const dialog of document.querySelectorAll("dialog")) dialog.show();
    for (const e of document.querySelectorAll("main *")) { // clipped texts are blocks, which axe-core does not know
      if (getComputedStyle(e).webkitLineClamp !== "none") e.style.setProperty("display", "block", "important");
    }
    const { axe } = globalThis;
    const result = await axe.run(document, { runOnly: standards, preload: false });
    const found = result.violations.flatMap(({ id, help, nodes }) =>
      nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)} ${node.any.map((c) => c.message).join(" ")}`));
    axe.setup(document);
    for (const link of document.querySelectorAll("a[href]")) {
      const underlined = getComputedStyle(link).textDecorationLine === "underline";
      if (!underlined && link.checkVisibility() && link.innerText.trim() &&
          axe.commons.dom.isInTextBlock(link, { noLengthCompare: true })) {
        found.push(`a link in a text has no underline: ${link.parentElement.outerHTML.slice(0, 160)}`);
      }
    }
    axe.teardown();
    // The name of a button of a row says what it does to the row, and texts do not run together. Runs of the same pieces
    // on one printer have the same name.
    const names = new Map();
    for (const button of document.querySelectorAll("main :is(li, tbody tr) :is(button, summary)")) {
      const name = button.ariaLabel ?? button.textContent.replace(/\s+/g, " ").trim();
      const target = button.closest("form")?.action ?? "";
      if (names.has(name) && names.get(name) !== target && !name.includes(" × ")) {
        found.push(`two buttons have the name ${name}`);
      }
      names.set(name, target);
    }
    for (const e of document.querySelectorAll("main :is(a, button, h1, h2, p, td, th, dd, small, label)")) {
      const texts = [];
      const walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
      for (let node; (node = walker.nextNode());) {
        if (node.data && !node.parentElement.closest("svg, select, textarea")) texts.push(node.data);
      }
      for (let i = 1; i < texts.length; i++) {
        if (/[\p{L}\d]$/u.test(texts[i - 1]) && /^[\p{L}\d#]/u.test(texts[i])) {
          found.push(`texts run together: ${texts[i - 1]}${texts[i]} in ${e.outerHTML.slice(0, 160)}`);
        }
      }
    }
    return found;
  }, standards);
  for (const violation of violations) problems.add(`${name}: ${violation}`);
}

// labels checks that labels are printed on pages of the right size and number, and stand where the paper has them.
async function labels(page) {
  await page.goto(base + "/spools");
  const ids = (await page.$$eval("[name=id]", (all) => all.map((e) => e.value))).slice(0, 25);
  const mm = 25.4 / 96;
  for (const [size, width, height, columns, perPage, stepX, stepY] of [
    ["62x29", 62, 29, 1, 1], ["50x25", 50, 25, 1, 1], ["40x30", 40, 30, 1, 1],
    ["a4", 210, 297, 3, 24, 70, 37.125], ["5160", 215.9, 279.4, 3, 30, 69.85, 25.4],
  ]) {
    await page.goto(`${base}/labels?size=${size}&${ids.map((id) => "id=" + id).join("&")}`);
    const pdf = (await page.pdf({ preferCSSPageSize: true })).toString("latin1");
    const boxes = [...pdf.matchAll(/\/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]/g)];
    const far = (a, b) => Math.abs(a - b) > 0.4; // mm: Chromium rounds pages to whole points
    if (boxes.length !== Math.ceil(ids.length / perPage) ||
        boxes.some(([, w, h]) => far(w / 72 * 25.4, width) || far(h / 72 * 25.4, height))) {
      problems.add(`labels ${size}: ${boxes.length} pages of ${boxes.map((b) => b.slice(1).join(" x "))[0]} points`);
    }
    await page.emulateMedia({ media: "print" });
    const places = await page.$$eval(".label", (all) => all.map((e) => {
      const { x, y, width, height } = e.getBoundingClientRect();
      return [x, y, width, height];
    }));
    await page.emulateMedia({ media: null });
    for (const [i, [x, y, w, h]] of places.entries()) {
      const off = columns > 1 ? // a label of a roll is a page
        [(x - places[0][0]) * mm - (i % columns) * stepX, (y - places[0][1]) * mm - Math.floor(i / columns) * stepY,
          w * mm - { a4: 70, 5160: 66.675 }[size], h * mm - stepY] : [w * mm - width, h * mm - height];
      if (off.some((d) => Math.abs(d) > 0.05)) {
        problems.add(`labels ${size}: number ${i} is off by ${off.map((d) => d.toFixed(2))} mm`);
      }
    }
  }
}

// keep stores the HTML of a response for the validator.
async function keep(response, name) {
  const file = join(folder, `${files.length}.html`);
  writeFileSync(file, await response.text());
  files.push(name);
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
try {
  const wide = await newPage(browser, { viewport: { width: 1280, height: 800 } });
  const phone = await newPage(browser, { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  const open = async (address, links) => {
    const name = pattern(address);
    const response = await wide.goto(address);
    await keep(response, name);
    await audit(wide, name);
    await phone.goto(address);
    await audit(phone, `${name} on a phone`);
    if (links) {
      links.push(...await wide.$$eval("a[href]", (all) => all.filter((a) => !a.download).map((a) => a.href)));
    }
  };
  await open(base + "/sign-in");
  await open(base + "/not-a-page");
  for (const page of [wide, phone]) {
    await page.goto(base + "/sign-in");
    await page.fill("[name=email]", email);
    await page.fill("[name=password]", password);
    await page.click("main button");
    await page.waitForSelector(".signed-in");
  }
  const seen = new Set();
  const queue = [base + "/", base + "/search?q=pla"];
  for (let address; (address = queue.shift());) {
    address = address.split("#")[0];
    const url = new URL(address);
    if (url.origin !== base || /^\/(docs|redoc|api|s)\b|\.(csv|gz)$/.test(url.pathname) || seen.has(pattern(address))) {
      continue;
    }
    seen.add(pattern(address));
    await open(address, queue);
    if (url.pathname.endsWith("/new")) { // a form with errors
      const [response] = await Promise.all([
        wide.waitForNavigation(),
        wide.$eval("main form[method=post]", (form) => {
          form.noValidate = true;
          form.requestSubmit();
        }),
      ]);
      if (response.status() === 422) {
        await keep(response, `${url.pathname} with errors`);
        await audit(wide, `${url.pathname} with errors`);
      }
    }
  }
  await labels(wide);
  const out = execFileSync("sh", ["-c", 'java -jar "$0" --exit-zero-always --format gnu "$@" 2>&1',
    join(PAGE_TOOLS, "node_modules/vnu-jar/build/dist/vnu.jar"), ...files.map((_, i) => join(folder, `${i}.html`))]);
  for (const line of String(out).split("\n").filter(Boolean)) {
    const [, number, message] = line.match(/\/(\d+)\.html"?:([^]*)/) || [0, 0, line];
    problems.add(`${files[number]}: HTML: ${message}`);
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
for (const problem of problems) console.error(`FAIL  ${problem}`);
if (problems.size > 0) process.exit(1);
console.log(`ok    ${files.length} pages`);
