// Mends mistakes on the pages of a running service: each with at most three clicks after it was noticed, on the page
// of the thing where somebody notices it.
//
//   node mend.mjs BASE_URL EMAIL PASSWORD [PICTURES]
//
// The account must exist and be an admin. Each mistake is made by the API, or on the page if it is noticed at once, and
// mended three times: with a wide window, on a phone without JavaScript, and with keys only. Then the API must show
// what is right. PICTURES is a folder for a picture of each page after it was mended. The script needs playwright-core
// and Chromium, as docs.mjs does. It prints a line per walk with the clicks of each mistake, and exits with status 1
// after the first failed check.

import { join } from "node:path";
import { base, check, Farm, more, signIn, withBrowser } from "./farm.mjs";

const [pictures] = more;
const most = 3; // clicks

// hands does on a page what a person does, with a mouse or with keys only, and counts clicks. A key that does what a
// click does counts as one.
class Hands {
  constructor(page, keys) {
    Object.assign(this, { page, keys, clicks: 0 });
  }

  async reach(element) {
    await element.waitFor();
    const found = () => element.evaluate((e) => e === document.activeElement);
    for (let i = 0; !await found(); i++) {
      check(this.page.url(), i < 300, `Tab does not reach ${element}`);
      await this.page.keyboard.press("Tab");
    }
  }

  async act(element) {
    this.clicks++;
    if (!this.keys) return element.click();
    await this.reach(element);
    await this.page.keyboard.press("Enter");
  }

  // open opens a part of the page.
  open(name) {
    return this.act(this.page.locator("main summary", { hasText: new RegExp(`^${name}( |$)`) }).first());
  }

  // press follows a link or presses a button that leads to a page.
  async press(selector, text) {
    const element = this.page.locator(selector, text && { hasText: text }).filter({ visible: true }).first();
    await Promise.all([this.page.waitForNavigation(), this.act(element)]);
    await this.page.waitForLoadState("load");
  }

  async fill(name, value) {
    const picker = `[data-pick]:has([type=hidden][name="${name}"]) label input`;
    const field = this.page.locator(`main form >> :is([name="${name}"], ${picker}):visible`).first();
    if (!this.keys) return field.fill(value);
    await this.reach(field);
    await this.page.keyboard.press("Control+A");
    await this.page.keyboard.press("Delete");
    await this.page.keyboard.type(value);
  }
}

// mistakes has for each one: make, which returns the path of the page on which it is noticed, mend, and right, which
// returns what must be equal.
const mistakes = {
  "a deduction from the wrong spool, noticed at once": {
    async make(farm) {
      farm.spool = await farm.newSpool();
      return `/spools/${farm.spool.id}`;
    },
    async first(hands) { // the mistake itself, which is made on the page
      await hands.open("Deduct");
      await hands.fill("weight_grams", "45.5");
      await hands.press(".actions form button", "Deduct");
    },
    mend: (hands) => hands.press(".notice button", "Undo"),
    right: async (farm) => [await farm.left(farm.spool), 1000],
  },
  "a deduction from the wrong spool, noticed later": {
    async make(farm) {
      farm.spool = await farm.newSpool();
      farm.other = await farm.newSpool();
      await farm.post(`/spools/${farm.spool.id}/deduct`, { weight_grams: 45.5 });
      return `/spools/${farm.spool.id}`;
    },
    async mend(hands, farm) {
      await hands.press("main a", "Move to another spool");
      await hands.fill("spool_number", String(farm.other.number));
      await hands.press("#moving button", "Move");
    },
    right: async (farm) => [`${await farm.left(farm.spool)} ${await farm.left(farm.other)}`, "1000 954.5"],
  },
  "950 g for 95 in a completed run": {
    async make(farm) {
      await farm.newRun();
      await farm.complete(950);
      return `/runs/${farm.run.id}`;
    },
    async mend(hands) {
      await hands.open("Correct");
      await hands.fill("materials[0].actual_weight_grams", "95");
      await hands.press("main form button.primary", "Correct");
    },
    right: async (farm) => [`${await farm.left(farm.spool)} ${(await farm.get()).cost}`, "905 1.9"],
  },
  "the wrong run completed": {
    async make(farm) {
      await farm.newRun();
      await farm.complete(100);
      return `/runs/${farm.run.id}`;
    },
    async mend(hands) {
      await hands.open("Reopen");
      await hands.press("main form button", "Reopen the run");
    },
    right: async (farm) => [`${(await farm.get()).status} ${await farm.left(farm.spool)}`, "in_progress 1000"],
  },
  "a spool that was changed in the middle of a print": {
    async make(farm) {
      await farm.newRun();
      farm.other = await farm.newSpool();
      return `/runs/${farm.run.id}`;
    },
    async mend(hands, farm) {
      await hands.open("Exchange spool");
      await hands.fill("spool_number", String(farm.other.number));
      await hands.fill("used_grams", "30");
      await hands.press("main form button.primary", "Exchange");
    },
    async right(farm) {
      const { materials } = await farm.get();
      return [materials.map((m) => `${m.spool_id} ${m.actual_weight_grams} ${m.estimated_weight_grams}`).join(),
        `${farm.spool.id} 30 30,${farm.other.id} null 70`];
    },
  },
  "a spool of 2,999 for 29.99 in a completed run": {
    async make(farm) {
      await farm.newRun({ purchase_price: 2999 });
      await farm.complete(100);
      return `/runs/${farm.run.id}`;
    },
    async mend(hands) {
      await hands.open("Correct");
      await hands.fill("materials[0].cost_per_gram", "0.02999");
      await hands.press("main form button.primary", "Correct");
    },
    right: async (farm) => [(await farm.get()).cost, 2.999],
  },
  "the price of a spool": {
    async make(farm) {
      farm.spool = await farm.newSpool({ purchase_price: 2999 });
      return `/spools/${farm.spool.id}`;
    },
    async mend(hands) {
      await hands.press("main .actions a", "Edit");
      await hands.fill("purchase_price", "29.99");
      await hands.press("main form button.primary", "Save");
    },
    right: async (farm) => [(await farm.send("GET", `/spools/${farm.spool.id}`)).purchase_price, 29.99],
  },
  "a product that was removed": {
    async make(farm) {
      farm.product = await farm.post("/products", { name: `Removed ${Date.now()}` });
      await farm.send("DELETE", `/products/${farm.product.id}`);
      return "/products";
    },
    async mend(hands, farm) {
      await hands.press("main a", "Removed");
      await hands.press(`main tr:has-text("${farm.product.name}") button`, "Restore");
    },
    right: async (farm) => [(await farm.send("GET", `/products/${farm.product.id}`)).name, farm.product.name],
  },
  "an item of an order that was refunded": {
    async make(farm) {
      const product = await farm.post("/products", { name: `Refunded ${Date.now()}` });
      farm.order = await farm.post("/orders", { items: [{ product_id: product.id, quantity: 3, unit_price: 20 }] });
      return `/orders/${farm.order.id}`;
    },
    async mend(hands) {
      await hands.open("Change");
      await hands.press("main form[action*='/items/'] button", /Remove/);
    },
    right: async (farm) => [(await farm.send("GET", `/orders/${farm.order.id}`)).items.length, 0],
  },
};

// Mistakes is a farm in which mistakes are made by the API.
class Mistakes extends Farm {
  async newRun(more) {
    this.spool = await this.newSpool(more);
    this.run = await this.post("/production-runs", { status: "in_progress", printer_name: `Mended ${Date.now()}`,
      actual_print_time_hours: 0, materials: [{ spool_id: this.spool.id, estimated_weight_grams: 100 }] });
  }

  complete(grams) {
    return this.post(`/production-runs/${this.run.id}/complete`, { actual_print_time_hours: 0,
      materials: [{ spool_id: this.spool.id, actual_weight_grams: grams }] });
  }

  get() {
    return this.send("GET", `/production-runs/${this.run.id}`);
  }

  async left(spool) {
    return (await this.send("GET", `/spools/${spool.id}`)).remaining_weight_grams;
  }
}

async function walk(browser, tag, options, keys) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await signIn(page);
  const counts = [];
  for (const [name, { make, first, mend, right }] of Object.entries(mistakes)) {
    const farm = new Mistakes(context.request);
    await farm.signIn();
    await page.goto(base + await make(farm));
    const hands = new Hands(page, keys);
    await first?.(hands);
    hands.clicks = 0;
    await mend(hands, farm);
    const said = page.locator(".notice [role=status]");
    check(`${tag}: ${name}`, await said.count() > 0, "the page does not say what was done");
    const [got, want] = await right(farm);
    check(`${tag}: ${name}`, got === want, `${got}, want ${want}`);
    check(`${tag}: ${name}`, hands.clicks <= most, `${hands.clicks} clicks`);
    counts.push(`${name}: ${hands.clicks}`);
    if (pictures) {
      await page.screenshot({ path: join(pictures, `${tag}-${counts.length}.png`), fullPage: true });
    }
  }
  await context.close();
  console.log(`ok    ${tag}: ${counts.join("; ")}`);
}

await withBrowser(async (browser) => {
  await walk(browser, "wide", { viewport: { width: 1280, height: 800 } });
  const phone = { width: 390, height: 844 };
  await walk(browser, "phone", { viewport: phone, colorScheme: "dark", javaScriptEnabled: false });
  await walk(browser, "keys", { viewport: { width: 1280, height: 800 } }, true);
});
