// Sends forms after the session has ended, and checks what the form of the page has after the sign-in.
//
//   node session.mjs BASE_URL EMAIL PASSWORD
//
// The account must exist and be an admin. The script needs playwright-core and Chromium, as docs.mjs does. It exits with
// status 1 after the first failed check.

import { base, check, email, Farm, password, signIn, withBrowser } from "./farm.mjs";

const again = async (page, who = email, secret = password) => {
  await page.fill("[name=email]", who);
  await page.fill("[name=password]", secret);
  await page.click("button:has-text('Sign in')");
  await page.waitForSelector("body.signed-in");
  await page.waitForLoadState(); // the script has run
};
const keptText = (page) => page.evaluate(() => sessionStorage.getItem("kept"));

await withBrowser(async (browser) => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const farm = new Farm(context.request);
  await farm.signIn();
  const tag = Date.now().toString(36);
  const product = await farm.post("/products", { name: `Kept ${tag}` });
  const other = { email: `${tag}@farm.example`, password: `${tag} ${tag} phrase` };
  await farm.post("/users", { ...other, name: "Other", role: "admin" });
  await signIn(page);

  // All kinds of fields are back: a text, a choice, a picker and a check.
  const fillOrder = async () => {
    await page.goto(base + "/orders/new");
    await page.fill("[name=customer]", `Ada ${tag}`);
    await page.fill("[name=notes]", "two\nlines");
    await page.locator("[data-pick] input:not([type=hidden])").first().fill(`kept ${tag}`);
    await page.locator("[role=option]").first().click();
    await context.clearCookies();
    await page.click("main button.primary");
    await page.waitForSelector("h1:has-text('Sign in')");
  };
  await fillOrder();
  check("the address", page.url() === `${base}/sign-in?next=%2Forders%2Fnew`, page.url());
  await again(page);
  check("the page", page.url() === `${base}/orders/new`, page.url());
  check("the customer", await page.inputValue("[name=customer]") === `Ada ${tag}`);
  check("the notes", await page.inputValue("[name=notes]") === "two\nlines");
  await page.waitForSelector("text=Your session had ended. This is what you typed");
  check("nothing is kept any more", await keptText(page) === null);
  await page.click("main button.primary");
  await page.waitForSelector(`main >> text=Ada ${tag}`);
  const made = await farm.send("GET", `/orders?search=${encodeURIComponent(`Ada ${tag}`)}`);
  check("one order", made.total === 1, JSON.stringify(made));
  const order = await farm.send("GET", `/orders/${made.items[0].id}`);
  check("its product", order.items[0].product_id === product.id, JSON.stringify(order.items));

  // A page that is opened again after a form has been saved has nothing of that form.
  await page.goto(base + "/orders/new");
  check("the new form", await page.inputValue("[name=customer]") === "");

  // Another user sees nothing of it, and it is gone then.
  await fillOrder();
  await again(page, other.email, other.password);
  await page.goto(base + "/orders/new");
  check("another user's form", await page.inputValue("[name=customer]") === "" && await keptText(page) === null);

  // After a day it is gone.
  await fillOrder();
  await page.evaluate(() => {
    const kept = JSON.parse(sessionStorage.getItem("kept"));
    sessionStorage.setItem("kept", JSON.stringify({ ...kept, at: kept.at - 864e5 - 1 }));
  });
  await again(page, other.email, other.password);
  check("a day later", await page.inputValue("[name=customer]") === "" && await keptText(page) === null);

  // A form with a password is not kept, and a sign-out keeps nothing.
  await page.goto(base + "/account");
  await page.fill("[name=current_password]", other.password);
  await page.fill("[name=new_password]", `${other.password} 2`);
  await context.clearCookies();
  await page.locator("form[action='/account/password'] button").click();
  await page.waitForSelector("h1:has-text('Sign in')");
  check("a password", await keptText(page) === null);
  await again(page, other.email, other.password);
  await page.locator("form[action='/sign-out'] button").first().click();
  await page.waitForSelector("h1:has-text('Sign in')");
  check("a sign-out", await keptText(page) === null);
  console.log("ok    a form is back after the session has ended");
});
