// Elements from plain values. Text is always set as text, so no name can become markup.

import { tied } from "./words.js";

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  set(element, properties);
  const shown = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  element.append(...shown.map((child) => (typeof child === "string" ? tied(child) : child)));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    // An attribute would be refused by the page's own policy for styles.
    else if (name === "style") element.style.cssText = value;
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
}

export function card(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), ...children);
}

export function source(path, text) {
  return h("p", { class: "source" }, h("a", { href: path }, text ?? `from ${path.split("?")[0]}`));
}

export function stats(pairs) {
  return h("dl", { class: "stats" }, pairs.map(([name, value, tone, from]) =>
    h("div", { "data-from": from }, h("dt", {}, name), h("dd", { class: tone ?? "" }, value))));
}

export function table(caption, columns, rows) {
  const head = columns.map(([name, kind]) => h("th", { scope: "col", class: kind ?? "" }, name));
  const body = rows.map((cells) => h("tr", { role: "row" }, cells.map((cell, at) => h("td", { role: "cell", class: columns[at][1] ?? "", "data-label": columns[at][0] }, h("span", {}, ...[cell].flat())))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table" }, h("caption", { class: "quiet", hidden: true }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", { role: "rowgroup" }, body)));
}

export function replaceChildren(parent, ...children) {
  parent.replaceChildren(...children.flat().filter(Boolean));
}

// What was typed, unfolded and focused survives when a part of the page is drawn again.
// A button that is replaced between press and release gets no click: what would be drawn meanwhile waits.
const PRESS_MS = 2000;
const waiting = new Map();
let pressedAt = -Infinity;
addEventListener("pointerdown", () => { pressedAt = performance.now(); }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(released), true);

function released() {
  pressedAt = -Infinity;
  const late = [...waiting];
  waiting.clear();
  for (const [parent, children] of late) redraw(parent, children);
}

export function redraw(parent, children) {
  if (performance.now() - pressedAt < PRESS_MS) {
    waiting.set(parent, children);
    return;
  }
  waiting.delete(parent);
  const typed = new Map([...parent.querySelectorAll("input[data-key]")].map((each) => [each.dataset.key, each.value]));
  const open = new Set([...parent.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  const focused = document.activeElement?.dataset?.key;
  replaceChildren(parent, children);
  for (const each of parent.querySelectorAll("details")) if (open.has(each.dataset.key)) each.open = true;
  for (const each of parent.querySelectorAll("input[data-key]")) each.value = typed.get(each.dataset.key) ?? each.value;
  if (focused) parent.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}
