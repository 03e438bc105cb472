// What the scripts of this folder share that click through the pages of a running service.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const { PLAYWRIGHT_CORE, CHROMIUM = "/usr/bin/chromium" } = process.env;
const { chromium } = createRequire(import.meta.url)(PLAYWRIGHT_CORE ? resolve(PLAYWRIGHT_CORE) : "playwright-core");

export const [base, email, password, ...more] = process.argv.slice(2);
if (!password || !/^https?:\/\//.test(base)) {
  console.error(`usage: node ${process.argv[1]} BASE_URL EMAIL PASSWORD ...`);
  process.exit(2);
}

export function check(name, ok, detail = "") {
  if (!ok) throw new Error(`${name}: ${detail}`);
}

// withBrowser runs the function with a browser. The process exits with status 1 if the function throws an error.
export async function withBrowser(run) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    await run(browser);
  } catch (error) {
    console.error(`FAIL  ${error.message}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
}

// signIn signs in on a page, which shows Today then.
export async function signIn(page) {
  page.setDefaultTimeout(60_000); // long enough for a busy machine
  await page.goto(base + "/sign-in");
  await page.fill("[name=email]", email);
  await page.fill("[name=password]", password);
  await page.click("main button.primary");
  await page.waitForSelector(".signed-in");
}

// texts returns the texts of pages in a language by their English ones, without contexts.
export function texts(language) {
  const lines = readFileSync(new URL(`../../value/language/${language}.txt`, import.meta.url), "utf8").split("\n");
  return Object.fromEntries(lines.flatMap((line, i) => line.startsWith("\t") ?
    [[lines[i - 1].replace(/\|(?!.*%d).*/, ""), line.slice(1)]] : []));
}

// Farm changes and reads the farm by the API.
export class Farm {
  constructor(request) {
    this.request = request;
  }

  async signIn() {
    const { access_token: token } = await this.post("/auth/login", { email, password });
    this.headers = { Authorization: `Bearer ${token}` };
  }

  async send(method, path, data) {
    const response = await this.request.fetch(base + "/api/v1" + path, { method, data, headers: this.headers });
    check(`${method} ${path}`, response.ok(), await response.text());
    return response.status() === 204 ? null : response.json();
  }

  post(path, data) {
    return this.send("POST", path, data);
  }

  newSpool(more) {
    return this.post("/spools", { material_type: "PLA", color: "Plum", diameter_mm: 1.75, net_weight_grams: 1000,
      purchase_price: 20, ...more });
  }
}
