// Comfort for the pages, which work without it.
"use strict";

// The texts that the script shows are attributes of the body, in the language of the page.
const texts = document.body.dataset;

// The name of a field, which a picker with a choice has only here.
const nameOf = (e) => e.name || e.dataset.field;

// Filters apply while they are changed: a choice at once, a text in the field of a search after a pause, other texts
// when the field is left, a day when it is typed. The field with the focus keeps it.
const field = sessionStorage.getItem("field");
sessionStorage.removeItem("field");
for (const form of document.querySelectorAll("form[data-filter]")) {
  let timer;
  const apply = (pause = 0) => {
    clearTimeout(timer);
    timer = setTimeout(() => form.requestSubmit(), pause);
  };
  form.addEventListener("change", ({ target }) => {
    if (!target.matches("[type=search], [role=combobox]")) apply(target.type === "date" ? 1000 : 0);
  });
  form.addEventListener("input", ({ target }) => target.type === "search" && apply(500));
  form.addEventListener("keydown", ({ target }) => target.type === "date" && timer && apply(1000));
  form.addEventListener("submit", () => {
    const focused = document.activeElement;
    if (form.contains(focused)) sessionStorage.setItem("field", nameOf(focused));
  });
  // Empty filters need not be in the address.
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
  const focused = field && [...form.elements].find((e) => nameOf(e) === field);
  if (!focused) continue;
  if (focused.closest("details")) focused.closest("details").open = true;
  focused.focus();
  if (focused.matches("[type=search]")) focused.setSelectionRange(focused.value.length, focused.value.length);
}

// A picker is a combobox: it shows what its text finds. The hidden input has what was chosen. A text without a choice is
// sent as it is, and the service reads it.
for (const [n, field] of document.querySelectorAll("[data-pick]").entries()) {
  const input = field.querySelector("input"), value = field.querySelector("[type=hidden]"), { name } = input;
  const chosen = field.querySelector(":checked");
  const list = document.createElement("ul"), words = document.createElement("span");
  for (const old of field.querySelectorAll("button, .choices")) old.remove();
  list.id = `choices-${n}`;
  words.className = "hide";
  for (const [e, all] of [[list, { role: "listbox", "aria-label": input.ariaLabel ?? input.labels[0].textContent.trim() }],
    [words, { role: "status" }], [input, { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": list.id }]]) for (const key in all) e.setAttribute(key, all[key]);
  list.hidden = true;
  field.append(list, words);
  const active = () => list.querySelector("[aria-selected=true]");
  const mark = (option) => {
    active()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  };
  const show = (open) => {
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    if (!open) return mark();
    list.style.left = "0"; // and further to the left at the edge of the window
    list.style.left = `${Math.min(0, document.documentElement.clientWidth - 16 - list.getBoundingClientRect().right)}px`;
  };
  const set = (id, text) => {
    value.value = id;
    if (text !== undefined) input.value = text;
    if (id) input.removeAttribute("name");
    else input.name = name;
  };
  let turn = 0, timer;
  const load = async (page = 1) => {
    const mine = ++turn;
    list.ariaBusy = "true";
    const query = new URLSearchParams({ search: value.value ? "" : input.value.trim(), page });
    const answer = await fetch(`/choices/${field.dataset.pick}?${query}`).catch(() => null);
    if (mine !== turn || document.activeElement !== input) return;
    const html = answer?.ok && !answer.redirected ? await answer.text() : "";
    if (mine !== turn) return;
    list.ariaBusy = "false";
    if (page > 1) list.querySelector("[data-next]").remove();
    else list.replaceChildren();
    list.insertAdjacentHTML("beforeend", html);
    const options = list.querySelectorAll("[role=option]");
    for (const [i, option] of options.entries()) option.id = `${list.id}-${i}`;
    words.textContent = options.length > 0 ? texts.choices.replace("%d", options.length) : texts.none;
    list.dataset.empty = words.textContent;
    show(true);
  };
  const choose = (option) => {
    clearTimeout(timer);
    turn++;
    set(option.dataset.value, option.dataset.name);
    show(false);
    value.dispatchEvent(new Event("change", { bubbles: true }));
  };
  if (chosen?.value) set(chosen.value, chosen.dataset.name);
  input.defaultValue = input.value;
  input.dataset.field = name;
  input.addEventListener("input", () => {
    const was = value.value;
    set("");
    if (was && !input.value) value.dispatchEvent(new Event("change", { bubbles: true }));
    clearTimeout(timer);
    turn++;
    list.ariaBusy = "true";
    timer = setTimeout(load, 150);
  });
  input.addEventListener("focus", () => value.value && input.select());
  input.addEventListener("click", () => list.hidden && load());
  input.addEventListener("blur", () => show(false));
  input.addEventListener("keydown", async (event) => {
    const now = active();
    if (event.key === "Enter" && now) choose(now);
    else if (event.key === "Escape" && !list.hidden) show(false);
    else if (event.key === "ArrowDown" && list.hidden) load();
    else if (event.key === "ArrowDown" && list.ariaBusy === "true") { /* another list comes */ }
    else if (event.key === "ArrowDown" && now?.nextElementSibling?.dataset.next) {
      event.preventDefault(); // before the wait
      await load(now.nextElementSibling.dataset.next);
      if (!now.nextElementSibling?.dataset.next) mark(now.nextElementSibling ?? now);
    } else if (event.key === "ArrowDown") mark(now ? now.nextElementSibling ?? now : list.querySelector("[role=option]"));
    else if (event.key === "ArrowUp" && !list.hidden) mark(now?.previousElementSibling);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) choose(option);
  });
  list.addEventListener("scroll", () => {
    const next = list.querySelector("[data-next]");
    const below = list.scrollHeight - list.scrollTop - list.clientHeight;
    if (next && below < 40 && list.ariaBusy !== "true") load(next.dataset.next);
  });
}

// A file that is dropped anywhere on the page is taken by the page's field for files.
const taker = document.querySelector("[type=file]");
addEventListener("dragover", (event) => taker && event.dataTransfer.types.includes("Files") && event.preventDefault());
addEventListener("drop", (event) => {
  const { files } = event.dataTransfer;
  if (!taker || files.length === 0) return;
  event.preventDefault();
  const taken = new DataTransfer();
  for (const file of taker.multiple ? files : [files[0]]) taken.items.add(file);
  taker.files = taken.files;
  if (taker.closest("details")) taker.closest("details").open = true;
  taker.closest("form").querySelector("button:not([hidden])").focus();
});

// The fields of new spools show what they get from the chosen filament.
const inherited = document.querySelector("form:has([name=quantity]) [type=hidden][name=filament_id]");
inherited?.addEventListener("change", async () => {
  const answer = await fetch(`/spools/new?filament_id=${inherited.value}`).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const input of inherited.form.querySelectorAll("[inputmode]")) {
    input.placeholder = page.querySelector(`[name="${input.name}"]`)?.placeholder ?? "";
  }
});

// A form with data-confirm asks on its button before it is sent.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  const button = form.querySelector("button");
  let sure = false;
  form.addEventListener("submit", (event) => {
    if (sure) return;
    event.preventDefault();
    sure = true;
    button.textContent = form.dataset.confirm;
    setTimeout(() => button.focus());
  });
}

// A form that is sent after the session has ended comes back after the sign-in, as it was typed. It is kept in this tab
// until then, for the same user, for a day at most, and never with a password or a secret.
const secrets = "[type=password], [name*=secret], [name*=token], [name=otp], [autocomplete=one-time-code]";
const typedIn = (form) => [...form.elements].filter((e) => e.matches("input:not([type=hidden], [type=file]), select, textarea"));
const user = document.body.dataset.user, here = location.pathname + location.search;
const keep = (form) => {
  const action = form.getAttribute("action");
  if (!user) return; // the sign-in
  if (action === "/sign-out" || form.querySelector(secrets)) return sessionStorage.removeItem("kept");
  const values = typedIn(form).map((e) => [nameOf(e), e.value, e.checked]);
  sessionStorage.setItem("kept", JSON.stringify({ user, page: here, action, values, at: Date.now() }));
};
const giveBack = ({ action, values }) => {
  const form = [...document.querySelectorAll("form[method=post]")].find((f) => f.getAttribute("action") === action);
  if (!form) return;
  for (const e of typedIn(form)) {
    const at = values.findIndex(([name, value]) => name === nameOf(e) && (e.type !== "radio" || value === e.value));
    if (at < 0) continue;
    const [[, value, checked]] = values.splice(at, 1);
    if (e.matches("[type=checkbox], [type=radio]")) e.checked = checked;
    else if (e.value !== value) {
      e.value = value;
      e.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }
  for (let e = form; e; e = e.parentElement) {
    if (e.matches("details")) e.open = true;
    else if (e.matches(".form")) e.previousElementSibling.querySelector("details").open = true;
  }
  const box = document.createElement("p");
  box.setAttribute("role", "status");
  box.className = "theirs";
  box.textContent = texts.ended;
  form.prepend(box);
  box.scrollIntoView({ block: "center" });
};
const kept = JSON.parse(sessionStorage.getItem("kept"));
if (kept && !user && Date.now() - kept.at < 864e5) {
  for (const words of document.querySelectorAll("[data-kept]")) words.hidden = false;
  sessionStorage.setItem("kept", JSON.stringify({ ...kept, ended: true }));
} else if (kept) {
  sessionStorage.removeItem("kept");
  if (kept.ended && kept.user === user && kept.page === here && Date.now() - kept.at < 864e5) giveBack(kept);
}

// A form is sent once, also after a double click. The page that "back" shows again is ready for another one.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "1";
  if (!event.defaultPrevented) keep(event.target);
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A color picker and the code beside it follow each other.
for (const pick of document.querySelectorAll("input[type=color]")) {
  const code = pick.closest(".field").querySelector("label input");
  pick.addEventListener("input", () => {
    code.value = pick.value.toUpperCase();
  });
  code.addEventListener("input", () => {
    if (/^#[0-9a-f]{6}$/i.test(code.value)) pick.value = code.value;
  });
}

// A form that opens has the cursor in its first field, so that a scale or a scanner can type. The form of a row is in
// the next row.
for (const details of document.querySelectorAll("details:has(> .button)")) {
  const { open } = details, place = details.querySelector("form") ? details : details.closest("tr")?.nextElementSibling;
  details.addEventListener("toggle", () => {
    if (!details.open || !place || place.querySelector(".problem") || open && details.matches(".add")) return;
    place.querySelector("input:not([type=hidden])")?.focus();
  });
}

// Rows are chosen one by one, in ranges with Shift, or all at once. A text says how many are chosen.
for (const form of document.querySelectorAll("form:has([data-all])")) {
  const boxes = () => [...form.querySelectorAll("tbody .choose input")];
  const all = () => form.querySelector("[data-all]");
  const show = () => {
    const every = form.querySelector("[name=every]");
    const chosen = boxes().filter((box) => box.checked).length;
    all().checked = chosen > 0 && chosen === boxes().length;
    if (every && !all().checked) every.checked = false;
    const count = every?.checked ? every.value : chosen;
    form.querySelector("[data-count]").textContent = chosen > 0 ? texts.chosen.replace("%d", count) : "";
  };
  let last;
  form.addEventListener("click", (event) => {
    const rows = boxes();
    const at = rows.indexOf(event.target);
    if (event.target.matches("[data-all]")) for (const box of rows) box.checked = event.target.checked;
    if (event.shiftKey && at >= 0 && rows.includes(last)) {
      const from = rows.indexOf(last);
      for (const box of rows.slice(Math.min(from, at), Math.max(from, at))) box.checked = event.target.checked;
    }
    if (at >= 0) last = event.target;
    show();
  });
  addEventListener("pageshow", show);
}

// A button copies the text before it. The clipboard's own interface needs HTTPS, this one does not.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const text = button.previousElementSibling;
    if (text.matches("input")) text.select();
    else getSelection().selectAllChildren(text);
    if (document.execCommand("copy")) button.textContent = texts.copied;
  });
}

// The time zone of a new farm is that of the browser, until somebody confirms another one. The currency is that of the
// time zone, because the language says less of the place.
for (const button of document.querySelectorAll("[data-zone]")) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const { time_zone: where, currency } = button.form.elements;
  if (zone) where.value = zone;
  currency.value = JSON.parse(button.dataset.zone)[zone] ?? currency.value;
}

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}

// The camera reads labels, where the browser can. Otherwise, the field for the number remains.
for (const scan of document.querySelectorAll("[data-scan]")) {
  if (!("BarcodeDetector" in window) || !navigator.mediaDevices) continue;
  const video = scan.querySelector("video"), words = scan.querySelector("[role=status]");
  let stream;
  const stop = () => {
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
  };
  const look = async (detector) => {
    if (!stream) return;
    const [code] = await detector.detect(video).catch(() => []);
    if (!code?.rawValue) return setTimeout(look, 150, detector);
    stop();
    location.assign("/scan?" + new URLSearchParams({ q: code.rawValue }));
  };
  const start = async () => {
    stop();
    if (document.hidden) return;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      video.srcObject = stream;
      await video.play();
      video.hidden = false;
      words.textContent = scan.dataset.scan;
      look(new BarcodeDetector());
    } catch {
      stop();
      words.textContent = scan.dataset.denied;
    }
  };
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  document.addEventListener("visibilitychange", start);
}

// Rows update by themselves: after a change of the farm's data, the page is read again, and its lists and figures are
// replaced. A tab that nobody sees does nothing.
const parts = (page) => [...page.querySelectorAll("[data-list], .every, .figures, .today, .spool-head, .ledger")];
const typed = (e) =>
  e.matches("[type=checkbox]") ? e.checked : e.matches("input:not([type=hidden])") && e.value !== e.defaultValue;
if (parts(document).length > 0 && "live" in document.body.dataset) {
  let stream;
  const refresh = async () => {
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok || answer.redirected) return; // the service stops, or the session has ended
    const fresh = parts(new DOMParser().parseFromString(await answer.text(), "text/html"));
    const shown = parts(document);
    if (fresh.length !== shown.length) {
      if (![...document.querySelectorAll("main input, main textarea")].some(typed)) location.reload();
      return;
    }
    for (const [i, part] of shown.entries()) {
      if (part.textContent === fresh[i].textContent || [...part.querySelectorAll("input")].some(typed)) continue;
      const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
      part.replaceWith(fresh[i]);
      if (focused) fresh[i].querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    }
  };
  const watch = () => {
    stream?.close();
    if (document.hidden) return;
    stream = new EventSource("/changes");
    stream.addEventListener("message", refresh);
  };
  document.addEventListener("visibilitychange", () => {
    watch();
    if (!document.hidden) refresh();
  });
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", watch);
}

// Keys: those of elements with data-key, j and k for the rows of a list, and ? for the help.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") document.getElementById("keys")?.showModal();
  const target = [...document.querySelectorAll("[data-key]")].findLast((e) => e.dataset.key === event.key);
  if (target) {
    event.preventDefault();
    if (target.matches("a, button")) target.click();
    else target.focus();
    return;
  }
  if (event.key !== "j" && event.key !== "k") return;
  const links = [...document.querySelectorAll("[data-list] a:not(thead *)")];
  const current = links.findIndex((a) => a === document.activeElement || a.getAttribute("aria-current"));
  const next = links[current < 0 ? 0 : current + (event.key === "j" ? 1 : -1)];
  next?.focus();
});
