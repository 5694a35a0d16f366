// Nodes as a picture, by zone or by pool, filled by what is requested or by what is used; a larger node is a wider tile.
// A tile is made once for each node and then only changed where something changed, so a thousand of them can be kept up to date.

import { h } from "./dom.js";
import { sampledAgo } from "./health.js";
import { brief, plural, share, span } from "./words.js";

const MANY = 120;
const WIDEST = 4;
const GROUPS = [["zone", "Zone"], ["pool", "Pool"]];
const FILLS = [["requested", "requests"], ["used", "use"]];
const LONGEST = 15;
const SLICE_MS = 6;

export class Tiles {
  constructor(onPick) {
    this.onPick = onPick;
    this.by = "zone";
    this.filled = "requested";
    this.groups = new Map();
    this.tiles = new Map();
    this.picked = "";
    this.todo = [];
    this.working = false;
    this.element = h("div", { class: "zones" });
    this.chips = GROUPS.map(([by, name]) => h("button", { type: "button", class: "chip", "aria-pressed": String(by === this.by), onclick: () => this.group(by) }, `By ${name.toLowerCase()}`));
    this.fills = FILLS.map(([by, name]) => h("button", { type: "button", class: "chip", "aria-pressed": String(by === this.filled), onclick: () => this.fill(by) }, `Fill: ${name}`));
    this.choice = h("div", { class: "row choice" }, h("p", { class: "row", role: "group", "aria-label": "Group nodes" }, this.chips),
      h("p", { class: "row", role: "group", "aria-label": "Fill nodes" }, this.fills));
  }

  fill(by) {
    this.filled = by;
    this.fills.forEach((chip, at) => chip.setAttribute("aria-pressed", String(FILLS[at][0] === by)));
    if (by === "used") this.element.dataset.from = "metrics";
    else delete this.element.dataset.from;
    if (this.last) this.update(...this.last);
  }

  group(by) {
    this.by = by;
    this.chips.forEach((chip, at) => chip.setAttribute("aria-pressed", String(GROUPS[at][0] === by)));
    this.groups.clear();
    this.element.replaceChildren();
    if (this.last) this.update(...this.last);
  }

  update(nodes, now) {
    this.last = [nodes, now];
    const many = nodes.length > MANY;
    const least = Math.min(...nodes.map((node) => node.cpu_milli || Infinity));
    const shared = many ? 0 : sharedStart(nodes.map((node) => node.name));
    const seen = new Set();
    const order = new Map();
    this.todo = [];
    for (const node of nodes) {
      const zone = this.place(node[this.by] || `no ${this.by}`);
      const key = node.uid || node.name;
      seen.add(key);
      const tile = this.tile(key, node);
      this.todo.push([tile, node, now, shared, Math.min(WIDEST, Math.max(1, Math.round(node.cpu_milli / least) || 1))]);
      if (tile.element.parentElement !== zone.list) zone.list.append(tile.element);
      order.set(zone, (order.get(zone) ?? 0) + 1);
    }
    for (const [key, tile] of this.tiles) {
      if (seen.has(key)) continue;
      tile.element.remove();
      this.tiles.delete(key);
    }
    for (const [name, zone] of this.groups) {
      const count = order.get(zone) ?? 0;
      zone.element.hidden = count === 0;
      text(zone.title, `${GROUPS.find(([by]) => by === this.by)[1]} ${name}: ${count} ${count === 1 ? "node" : "nodes"}`);
      zone.list.classList.toggle("many", many);
    }
    if (!this.working) this.work(many ? SLICE_MS : Infinity);
  }

  // Many tiles are painted a slice for each frame, so the page answers in between. What is seen again
  // meanwhile takes the place of what was still to do.
  work(most) {
    const end = performance.now() + most;
    while (this.todo.length && performance.now() < end) this.paint(...this.todo.shift());
    this.working = this.todo.length > 0;
    if (this.working) requestAnimationFrame(() => this.work(most));
  }

  place(name) {
    if (!this.groups.has(name)) {
      const title = h("h3", {});
      const list = h("ul", { class: "tiles" });
      const element = h("div", { class: "zone" }, title, list);
      this.groups.set(name, { title, list, element });
      const after = [...this.groups.keys()].sort().indexOf(name);
      this.element.insertBefore(element, this.element.children[after] ?? null);
    }
    return this.groups.get(name);
  }

  tile(key, node) {
    if (!this.tiles.has(key)) {
      const fill = h("i", {});
      const label = h("b", {});
      const note = h("small", {});
      const button = h("button", { type: "button", class: "tile", "data-key": `node-${key}`, onclick: () => this.onPick(node.name) }, fill, label, note);
      this.tiles.set(key, { element: h("li", {}, button), button, fill, label, note, was: "" });
    }
    return this.tiles.get(key);
  }

  paint(tile, node, now, shared, wide) {
    const idle = node.idle_since && node.state === "ready" ? now - node.idle_since : 0;
    const state = idle ? "idle" : node.state;
    const [full, told] = this.fullness(node, now);
    const clock = idle ? `, empty for ${span(idle)}` : "";
    const says = `${node.name}: ${node.state}${clock}, ${told}, ${plural(node.pods, "pod")}, ${node.instance_type}${node.market === "spot" ? ", spot" : ""}`;
    const is = `${says}|${shared}|${wide}|${this.picked === node.name}`;
    if (tile.was === is) return;
    tile.was = is;
    tile.button.dataset.state = state;
    tile.button.dataset.market = node.market;
    tile.button.setAttribute("aria-label", says);
    tile.button.setAttribute("aria-pressed", String(this.picked === node.name));
    tile.button.title = says;
    tile.element.style.setProperty("--wide", wide);
    tile.button.classList.toggle("unknown", full === null);
    tile.fill.style.setProperty("--fill", (full ?? 0).toFixed(2));
    text(tile.label, shortened(node.name.slice(shared)));
    text(tile.note, idle ? `empty ${brief(idle)}` : node.state !== "ready" ? node.state : full === null ? "unknown" : share(full));
  }

  // How full a node is and how that is said. Use that nobody measured is unknown, and not 0.
  fullness(node, now) {
    if (this.filled === "requested") {
      const full = Math.min(1, Math.max(node.cpu_requested, node.memory_requested));
      return [full, `${share(full)} requested`];
    }
    if (node.cpu_used === null || node.cpu_used === undefined) return [null, "use unknown"];
    const full = Math.min(1, Math.max(node.cpu_used, node.memory_used ?? 0));
    return [full, `${share(full)} used ${sampledAgo(node, now)}`.trim()];
  }
}

// What tells nodes apart is mostly at the end of their names: what all begin with is left out.
function sharedStart(names) {
  if (names.length < 2) return 0;
  let end = 0;
  while (end < names[0].length && names.every((name) => name[end] === names[0][end])) end += 1;
  return Math.max(0, names[0].slice(0, end).search(/[^-_.]*$/));
}

function shortened(name) {
  return name.length > LONGEST ? `…${name.slice(1 - LONGEST)}` : name;
}

function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

export function legend() {
  const states = [["ready", "ready"], ["idle", "empty, and for how long"], ["joining", "joining"], ["draining", "chosen, at risk or draining"], ["terminating", "terminating, lost or not ready"]];
  return h("ul", { class: "legend" }, states.map(([state, says]) => h("li", { "data-state": state }, says)), h("li", { "data-market": "spot" }, "spot (dashed)"), h("li", { class: "plain" }, "fill: CPU or memory, whichever is more; width: CPU"));
}
