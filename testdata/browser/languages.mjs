// Visits all pages of a running service in a language, on a phone and in a wide window, and checks that no text is cut,
// that no texts overlap, and that no page is wider than its window.
//
//   node languages.mjs BASE_URL EMAIL PASSWORD LANGUAGE [FOLDER]
//
// The script follows the links from the first page. Pages that differ only in ids or in their queries are one page. With
// FOLDER, it stores a picture of each. It needs what docs.mjs needs.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { base, email, more, password, withBrowser } from "./farm.mjs";

const [language, folder] = more;
const problems = new Set();
if (folder) mkdirSync(folder, { recursive: true });

function pattern(address) {
  return new URL(address).pathname.replace(/\/[0-9a-f]{8}-[0-9a-f-]{27}/g, "/ID");
}

// faults returns what is wrong with the texts of the page.
function faults() {
  for (const details of document.querySelectorAll("details")) {
    details.removeAttribute("name");
    details.open = true;
  }
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) {
    const scrolls = (e) => e &&
      (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement.closest("main *")));
    const widest = [...document.querySelectorAll("main *")].find((e) =>
      e.getBoundingClientRect().right > width + 1 && !scrolls(e));
    found.push(`is ${document.documentElement.scrollWidth} pixels wide: ${widest?.outerHTML.slice(0, 120)}`);
  }
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement;
    if (!node.data.trim() || !parent.checkVisibility({ visibilityProperty: true, opacityProperty: true }) ||
        parent.closest(".hide, .skip, nav.foot, select, svg, dialog, option, textarea, [hidden]")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (let e = parent; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      const cuts = style.overflowX === "hidden" || style.overflowX === "clip";
      if (cuts && e.clientWidth > 0 && range.getBoundingClientRect().right > e.getBoundingClientRect().right + 1 &&
          style.textOverflow !== "ellipsis" && style.webkitLineClamp === "none") {
        found.push(`is cut: ${node.data.trim().slice(0, 60)} in ${e.outerHTML.slice(0, 80)}`);
      }
    }
    let clip = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };
    for (let e = parent; e && e !== document.body; e = e.parentElement) {
      if (getComputedStyle(e).overflowX === "visible") continue;
      const b = e.getBoundingClientRect();
      clip = { left: Math.max(clip.left, b.left), top: Math.max(clip.top, b.top), right: Math.min(clip.right, b.right),
        bottom: Math.min(clip.bottom, b.bottom) };
    }
    for (const r of range.getClientRects()) {
      const seen = { left: Math.max(r.left, clip.left), top: Math.max(r.top, clip.top),
        right: Math.min(r.right, clip.right), bottom: Math.min(r.bottom, clip.bottom), height: r.height };
      if (seen.right - seen.left > 1 && seen.bottom - seen.top > 1) texts.push([node, seen]);
    }
  }
  for (const [i, [a, p]] of texts.entries()) {
    for (const [b, q] of texts.slice(i + 1)) {
      if (a === b) continue;
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > 3 && y > Math.min(p.height, q.height) * 0.4) {
        found.push(`overlap: ${a.data.trim().slice(0, 40)} / ${b.data.trim().slice(0, 40)}`);
      }
    }
  }
  return found;
}

await withBrowser(async (browser) => {
  for (const width of [390, 1280]) {
    const context = await browser.newContext({ viewport: { width, height: 844 },
      extraHTTPHeaders: { "Accept-Language": language } });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000); // long enough for a busy machine
    await page.goto(base + "/sign-in");
    await page.fill("[name=email]", email);
    await page.fill("[name=password]", password);
    await page.click("main button");
    await page.waitForSelector(".signed-in");
    const seen = new Set();
    const queue = [base + "/", base + "/search?q=pla"];
    for (let address; (address = queue.shift());) {
      address = address.split("#")[0];
      const url = new URL(address);
      const isOther = url.origin !== base || /^\/(docs|redoc|api|s)\b|\.(csv|gz)$/.test(url.pathname);
      if (isOther || seen.has(pattern(address))) continue;
      seen.add(pattern(address));
      await page.goto(address, { waitUntil: "domcontentloaded" });
      queue.push(...await page.$$eval("a[href]", (all) => all.filter((a) => !a.download).map((a) => a.href)));
      for (const fault of await page.evaluate(faults)) problems.add(`${width}: ${pattern(address)}: ${fault}`);
      if (folder) {
        const name = pattern(address).replace(/\W+/g, "-").replace(/^-|-$/g, "") || "today";
        await page.screenshot({ path: join(folder, `${name}-${width}.png`), fullPage: true });
      }
    }
    console.log(`ok    ${seen.size} pages, ${width} pixels wide`);
  }
});
for (const problem of problems) console.error(`FAIL  ${problem}`);
if (problems.size > 0) process.exitCode = 1;
