// Nodes, pending pods and cost an hour over the last hours, on one axis of time, with marks for what happened.
// By pointer or arrow keys a moment is chosen, and its values are written above the chart.

import { h, s } from "./dom.js";
import { clock, money, moment } from "./words.js";

const ROWS = [["workers", "nodes"], ["pending", "pending pods"], ["cost", "cost an hour"]];
const MARK_WIDE = 5;
const TONES = ["", "good", "warn", "bad"];
const TALL = 64;
const GAP = 18;
const LEFT = 8;
const RIGHT = 56;
const TOP = 20;
const HEIGHT = TOP + ROWS.length * (TALL + GAP) + 8;

export class Trend {
  constructor() {
    this.points = [];
    this.all = [];
    this.marks = [];
    this.chosen = null;
    this.values = h("p", { class: "trend-values", "aria-live": "polite" });
    this.holder = h("div", { class: "trend", tabindex: "0", role: "group", "aria-label": "Chart of nodes, pending pods and cost an hour. Arrow keys choose a moment.",
      onpointermove: (event) => this.point(event), onpointerleave: () => this.choose(null), onkeydown: (event) => this.key(event) });
    this.element = h("div", {}, this.values, this.holder);
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  update(costs, marks, now, hours) {
    this.until = now;
    this.since = now - hours * 3600;
    this.currency = costs.currency;
    this.points = costs.points.map((point) => ({ at: point.at, workers: point.workers, pending: point.pending, cost: Number(point.per_hour) }));
    this.all = marks;
    this.draw();
  }

  x(at) { return LEFT + ((at - this.since) / (this.until - this.since)) * (this.wide - LEFT - RIGHT); }

  draw() {
    this.wide = this.holder.clientWidth;
    if (!this.wide || !this.until) return;
    const svg = s("svg", { class: "chart", width: this.wide, height: HEIGHT, viewBox: `0 0 ${this.wide} ${HEIGHT}`, "aria-hidden": "true" });
    ROWS.forEach(([field, name], row) => this.row(svg, field, name, TOP + row * (TALL + GAP)));
    this.marks = thinned(this.all.filter((mark) => mark.at >= this.since), (mark) => this.x(mark.at));
    for (const mark of this.marks) {
      const x = this.x(mark.at).toFixed(1);
      svg.append(s("line", { class: `mark-line ${mark.tone}`, x1: x, x2: x, y1: 12, y2: HEIGHT - 14 }), s("circle", { class: `mark-dot ${mark.tone}`, cx: x, cy: 8, r: 4 }));
    }
    this.hair = s("line", { class: "hair", x1: 0, x2: 0, y1: 0, y2: HEIGHT - 14, visibility: "hidden" });
    svg.append(this.hair);
    for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      const at = this.since + share * (this.until - this.since);
      svg.append(label(this.x(at), HEIGHT - 1, anchor, share === 1 ? "now" : clock(at, true)));
    }
    this.holder.replaceChildren(svg);
    this.choose(this.chosen);
  }

  row(svg, field, name, top) {
    const known = this.points.filter((point) => point[field] !== null && point[field] !== undefined);
    const most = Math.max(...known.map((point) => point[field]), field === "cost" ? 0.0001 : 1);
    const bottom = top + TALL;
    const y = (value) => (bottom - (value / most) * (TALL - 12)).toFixed(1);
    svg.append(s("line", { class: "axis", x1: LEFT, x2: this.wide - RIGHT, y1: bottom, y2: bottom }), label(LEFT, top + 8, "start", name));
    svg.append(label(this.wide - RIGHT + 6, Number(y(most)) + 4, "start", field === "cost" ? money(most, "") : String(most)), label(this.wide - RIGHT + 6, bottom + 4, "start", "0"));
    const shown = within(known, this.since);
    if (!shown.length) return;
    // A value holds until it changes: steps, not slopes.
    let path = `M${this.x(shown[0].at).toFixed(1)},${y(shown[0][field])}`;
    for (const point of shown.slice(1)) path += `H${this.x(point.at).toFixed(1)}V${y(point[field])}`;
    path += `H${this.x(this.until).toFixed(1)}`;
    svg.append(s("path", { class: `area ${field}`, d: `${path}V${bottom}H${this.x(shown[0].at).toFixed(1)}Z` }), s("path", { class: `line ${field}`, d: path }));
  }

  point(event) {
    const share = (event.offsetX - LEFT) / (this.wide - LEFT - RIGHT);
    this.choose(this.since + Math.min(1, Math.max(0, share)) * (this.until - this.since));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.until) return;
    event.preventDefault();
    const from = this.chosen ?? this.until;
    this.choose(Math.min(this.until, Math.max(this.since, from + (step * (this.until - this.since)) / 60)));
  }

  choose(at) {
    this.chosen = at;
    const when = at ?? this.until;
    const point = this.points.findLast((each) => each.at <= when);
    const near = at === null ? null : this.marks.find((mark) => Math.abs(this.x(mark.at) - this.x(at)) < 5);
    const parts = point
      ? [`${point.workers ?? "?"} nodes`, `${point.pending ?? "?"} pending`, `${money(point.cost, this.currency)} an hour`]
      : ["not known"];
    this.values.textContent = `${at === null ? "Now" : moment(when)}: ${parts.join(", ")}${near ? ` · ${near.title}${near.count > 1 ? ` and ${near.count - 1} more` : ""}` : ""}`;
    if (!this.hair) return;
    this.hair.setAttribute("visibility", at === null ? "hidden" : "visible");
    for (const end of ["x1", "x2"]) this.hair.setAttribute(end, this.x(when));
  }
}

// Marks that would lie on each other are one, with the worst tone: thousands of dots tell no more than a few.
function thinned(marks, place) {
  const found = new Map();
  for (const mark of marks) {
    const key = Math.round(place(mark) / MARK_WIDE);
    const known = found.get(key);
    if (!known) found.set(key, { ...mark, count: 1 });
    else found.set(key, { ...(TONES.indexOf(mark.tone) > TONES.indexOf(known.tone) ? mark : known), count: known.count + 1 });
  }
  return [...found.values()];
}

// What held when the window begins is drawn from its edge.
function within(points, since) {
  const inside = points.filter((point) => point.at >= since);
  const before = points.findLast((point) => point.at < since);
  return before ? [{ ...before, at: since }, ...inside] : inside;
}

function label(x, y, anchor, text) {
  const element = s("text", { x, y, "text-anchor": anchor });
  element.textContent = text;
  return element;
}
