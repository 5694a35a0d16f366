// The frame: which page is shown, whether the server is there, the token, light or dark.

import { ask, listen, setToken } from "./api.js";
import { health } from "./health.js";
import { now } from "./now.js";
import { why } from "./why.js";
import { money } from "./money.js";
import { sleep } from "./sleep.js";

const PAGES = { now, why, money, sleep };
const main = document.getElementById("page");
let shown = null;
let address = "";
let readAt = 0;
// By address, what was last shown there: in an outage it is shown again, with its age, and not an empty page.
const before = new Map();
let busy = false;
let again = false;

// What was refused or failed when a person asked for it; what cannot be read is said by `health`.
export function say(message) {
  health({ message });
}

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name: Object.hasOwn(PAGES, name) ? name : "now", rest: rest.map(decoded), query: new URLSearchParams(query ?? "") };
}

// An address that somebody mistyped is taken as it stands.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

async function show() {
  const { name, rest, query } = place();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Ebbtide`;
  if (readAt) before.set(address, { page: shown, parts: [...main.children], readAt });
  address = location.hash;
  readAt = 0;
  health({ readAt });
  main.replaceChildren();
  // Shown once there is something to show: parts that fill one after the other would push each other around.
  main.classList.add("unread");
  const page = PAGES[name](main, { rest, query, say, refresh, drawn: () => drawn(page) });
  shown = page;
  await refresh();
}

// What a page shows is known from here on, even where a later part of the same refresh fails. A page that was left
// meanwhile says nothing about the next one, which would stand there empty.
function drawn(page) {
  if (page !== shown) return;
  reveal();
  readAt = Date.now();
  health({ readAt });
}

// What is hidden takes no focus: it comes when the page does, unless a person has gone elsewhere with the keyboard.
let arriving = false;
function reveal() {
  main.classList.remove("unread");
  if (arriving && (document.activeElement === document.body || document.activeElement.closest("nav"))) main.focus({ preventScroll: true });
  arriving = false;
}

function showAgain() {
  const found = before.get(address);
  if (readAt || !found) return;
  shown = found.page;
  readAt = found.readAt;
  main.replaceChildren(...found.parts);
  reveal();
  health({ readAt });
}

// One refresh at a time; what comes meanwhile asks for one more, and no more than one.
export async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  do {
    again = false;
    const page = shown;
    try {
      const status = await ask("/api/v1/status");
      document.getElementById("cluster").textContent = status.cluster;
      // Before the page is drawn: a banner that comes after it would push all of it down.
      health({ status });
      await page?.refresh(status);
      if (page === shown) readAt = Date.now();
      health({ status, failure: null, ...(page === shown ? { readAt, message: "" } : {}) });
    } catch (failure) {
      if (failure.status === undefined) throw failure;
      // One thing that is not there is no outage.
      if (failure.status === 404) say(failure.message);
      else health({ failure });
      if (failure.status !== 404 && page === shown) showAgain();
    }
    // A page that was left while it was read says nothing about the one that is shown now.
    if (page === shown) reveal();
  } while (again);
  busy = false;
}

// Asks in any case: where the server is gone, that is said at once and not at the next turn.
let connection = "";
function onState(state) {
  if (connection === state) return;
  connection = state;
  health({ connection });
  refresh();
}

// A page that nobody looks at asks for nothing; it is brought up to date when somebody does.
let timer = null;
function soon() {
  if (document.hidden) return;
  timer ??= setTimeout(() => { timer = null; refresh(); }, 250);
}

const dialog = document.getElementById("token-dialog");
document.getElementById("token-button").addEventListener("click", () => dialog.showModal());
dialog.addEventListener("close", () => {
  const field = document.getElementById("token-field");
  if (dialog.returnValue === "use") setToken(field.value);
  if (dialog.returnValue === "forget") setToken("");
  field.value = "";
  if (dialog.returnValue !== "cancel") refresh();
});

const themes = document.getElementById("theme-button");
const wishes = matchMedia("(prefers-color-scheme: dark)");
function dark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : wishes.matches;
}
function tellTheme() { themes.setAttribute("aria-pressed", String(dark())); }
themes.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  localStorage.setItem("ebbtide-theme", document.documentElement.dataset.theme);
  tellTheme();
});
const kept = localStorage.getItem("ebbtide-theme");
if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
tellTheme();
wishes.addEventListener("change", tellTheme);

// The # names the page that is shown, so the link that skips to the content moves the focus itself.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

addEventListener("hashchange", () => { arriving = true; show(); });
document.addEventListener("visibilitychange", soon);
show();
listen(soon, onState);
setInterval(() => { health({}); soon(); }, 10000);
