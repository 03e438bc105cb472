// Takes the pictures of README.md on the pages of a running demo.
//
//   node pictures.mjs BASE_URL EMAIL PASSWORD FOLDER
//
// The pictures are today.webp, of a wide window, and spool.webp, of a phone. The script needs playwright-core and
// Chromium, as docs.mjs does.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { base, Farm, more, signIn, withBrowser } from "./farm.mjs";

const [folder] = more;

async function picture(context, path, name) {
  const page = await context.newPage();
  await signIn(page);
  await page.goto(base + path);
  const session = await context.newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 80 });
  await writeFile(join(folder, name), Buffer.from(data, "base64"));
}

await withBrowser(async (browser) => {
  const wide = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await picture(wide, "/", "today.webp");
  const phone = await browser.newContext({ viewport: { width: 390, height: 700 } });
  const farm = new Farm(phone.request);
  await farm.signIn();
  const { items } = await farm.send("GET", "/spools?sort_by=last_used_at&in_stock=true&limit=1");
  await picture(phone, `/spools/${items[0].id}`, "spool.webp");
});
