// Opens a page in Chromium and prints what it reports: node browser.mjs URL
//
// FARM_URL, FARM_EMAIL, FARM_PASSWORD: the service. CHROMIUM: the browser. PLAYWRIGHT_CORE: the folder of
// playwright-core.

import { createRequire } from "node:module";
import { resolve } from "node:path";

const { chromium } = createRequire(import.meta.url)(resolve(process.env.PLAYWRIGHT_CORE));
const { FARM_URL: farm, FARM_EMAIL: email, FARM_PASSWORD: password, CHROMIUM } = process.env;
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
try {
  const page = await browser.newPage();
  page.on("console", (message) => console.log(message.text()));
  page.on("pageerror", (error) => console.log(String(error)));
  await page.goto(`${process.argv[2]}#${new URLSearchParams({ farm, email, password })}`);
  await page.waitForFunction(() => globalThis.finished, undefined, { timeout: 90_000 });
} finally {
  await browser.close();
}
