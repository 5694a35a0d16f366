// Nodes, pending pods and cost an hour over the last hours, on one axis of time, with marks for what happened. Where
// demand is forecast, also pods, and to the right of now the band that they are expected in.
// By pointer or arrow keys a moment is chosen, and its values are written above the chart.

import { h, s } from "./dom.js";
import { isOld } from "./health.js";
import { brief, clock, money, moment, plural } from "./words.js";

const ROWS = [["workers", "nodes"], ["pending", "pending pods"], ["cost", "cost an hour"]];
const STEP_SECONDS = 900;
// Of what is expected, as much as a third of what was.
const AHEAD = 1 / 3;
const MARK_WIDE = 5;
const TONES = ["", "good", "warn", "bad"];
const TALL = 64;
const GAP = 18;
const LEFT = 8;
const RIGHT = 56;
const TOP = 20;
const ROW = TALL + GAP;

export class Trend {
  constructor() {
    this.points = [];
    this.all = [];
    this.marks = [];
    this.asked = [];
    this.bands = [];
    this.chosen = null;
    this.values = h("p", { class: "trend-values", "aria-live": "polite" }, "Reading …");
    this.holder = h("div", { class: "trend", tabindex: "0", role: "group", "data-present": "", "aria-label": "Chart of nodes, pending pods and cost an hour, and of pods where they are forecast. Arrow keys choose a moment.",
      onpointermove: (event) => this.point(event), onpointerleave: () => this.choose(null), onkeydown: (event) => this.key(event), onstale: () => this.draw() });
    this.element = h("div", {}, this.values, this.holder);
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  // `current` is what the rest of the page shows: a tick noted its point some seconds ago.
  update(costs, marks, now, hours, forecast, current) {
    this.now = now;
    this.since = now - hours * 3600;
    this.asked = forecast?.past ?? [];
    const ahead = Math.max(hours * 3600 * AHEAD, 2 * STEP_SECONDS);
    this.bands = (forecast?.expected ?? []).filter((band) => band.at + STEP_SECONDS > now && band.at < now + ahead);
    this.whyNot = forecast?.why_not ?? "";
    this.until = this.bands.length ? now + ahead : now;
    this.currency = costs.currency;
    this.points = costs.points.map((point) => ({ at: point.at, workers: point.workers, pending: point.pending, cost: Number(point.per_hour) }));
    const last = this.points.at(-1);
    if (last && current && last.at <= now) this.points.push({ ...last, ...current, at: now });
    this.all = marks;
    this.draw();
  }

  x(at) { return LEFT + ((at - this.since) / (this.until - this.since)) * (this.wide - LEFT - RIGHT); }

  draw() {
    this.wide = this.holder.clientWidth;
    if (!this.wide || !this.until) return;
    const height = TOP + (ROWS.length + (this.asked.length ? 1 : 0)) * ROW + 8;
    const svg = s("svg", { class: "chart", width: this.wide, height, viewBox: `0 0 ${this.wide} ${height}`, "aria-hidden": "true" });
    ROWS.forEach(([field, name], row) => this.row(svg, field, name, TOP + row * ROW));
    if (this.asked.length) this.expected(svg, TOP + ROWS.length * ROW);
    this.marks = thinned(this.all.filter((mark) => mark.at >= this.since), (mark) => this.x(mark.at));
    for (const mark of this.marks) {
      const x = this.x(mark.at).toFixed(1);
      svg.append(s("line", { class: `mark-line ${mark.tone}`, x1: x, x2: x, y1: 12, y2: height - 14 }), s("circle", { class: `mark-dot ${mark.tone}`, cx: x, cy: 8, r: 4 }));
    }
    this.hair = s("line", { class: "hair", x1: 0, x2: 0, y1: 0, y2: height - 14, visibility: "hidden" });
    svg.append(this.hair);
    if (this.bands.length) {
      const x = this.x(this.now).toFixed(1);
      svg.append(s("line", { class: "now-line", x1: x, x2: x, y1: 0, y2: height - 14 }));
    }
    const room = this.x(this.until) - this.x(this.now) > 100;
    const present = isOld("cluster") ? clock(this.now, true) : "now";
    const last = this.bands.length ? [[this.now, "middle", present], [this.until, "end", room ? clock(this.until, true) : ""]]
      : [[(this.since + this.until) / 2, "middle"], [this.until, "end", present]];
    for (const [at, anchor, text] of [[this.since, "start"], ...last]) svg.append(label(this.x(at), height - 1, anchor, text ?? clock(at, true)));
    this.holder.replaceChildren(svg);
    this.choose(this.chosen);
  }

  // Pods by quarter of an hour: a line for what was asked for, then the band from p50 to p95.
  expected(svg, top) {
    const bottom = top + TALL;
    const most = Math.max(...this.asked.map((each) => each.pods), ...this.bands.map((band) => band.p95), 1);
    const y = (value) => (bottom - (value / most) * (TALL - 12)).toFixed(1);
    const until = (at) => this.x(Math.min(at, this.until)).toFixed(1);
    const name = this.bands.length ? "pods, and expected from p50 to p95" : `pods; nothing is expected yet: ${this.whyNot}`;
    svg.append(s("line", { class: "axis", x1: LEFT, x2: this.wide - RIGHT, y1: bottom, y2: bottom }), label(LEFT, top + 8, "start", name),
      label(this.wide - RIGHT + 6, Number(y(most)) + 4, "start", String(Math.ceil(most))), label(this.wide - RIGHT + 6, bottom + 4, "start", "0"));
    const shown = within(this.asked, this.since);
    if (shown.length) {
      const end = Math.min(shown[shown.length - 1].at + STEP_SECONDS, this.now);
      const steps = shown.slice(1).map((each) => `H${until(each.at)}V${y(each.pods)}`).join("");
      svg.append(s("path", { class: "line pods", d: `M${until(shown[0].at)},${y(shown[0].pods)}${steps}H${until(end)}` }));
    }
    if (!this.bands.length) return;
    const [first] = this.bands;
    const begin = (band) => until(Math.max(band.at, this.since));
    const end = (band) => until(band.at + STEP_SECONDS);
    const low = this.bands.map((band) => `L${begin(band)},${y(band.p50)}L${end(band)},${y(band.p50)}`).join("");
    const back = this.bands.toReversed().map((band) => `L${end(band)},${y(band.p95)}L${begin(band)},${y(band.p95)}`).join("");
    const from = `M${begin(first)},${y(first.p50)}`;
    svg.append(s("path", { class: "band", d: `${from}${low}${back}Z` }), s("path", { class: "line median", d: `${from}${low}` }));
  }

  row(svg, field, name, top) {
    const known = this.points.filter((point) => point[field] !== null && point[field] !== undefined);
    const most = Math.max(...known.map((point) => point[field]), field === "cost" ? 0.0001 : 1);
    const bottom = top + TALL;
    const y = (value) => (bottom - (value / most) * (TALL - 12)).toFixed(1);
    svg.append(s("line", { class: "axis", x1: LEFT, x2: this.wide - RIGHT, y1: bottom, y2: bottom }), label(LEFT, top + 8, "start", field === "cost" && this.currency ? `${name}, ${this.currency}` : name));
    svg.append(label(this.wide - RIGHT + 6, Number(y(most)) + 4, "start", field === "cost" ? money(most, "") : String(most)), label(this.wide - RIGHT + 6, bottom + 4, "start", "0"));
    const shown = within(known, this.since);
    if (!shown.length) return;
    // A value holds until it changes: steps, not slopes.
    let path = `M${this.x(shown[0].at).toFixed(1)},${y(shown[0][field])}`;
    for (const point of shown.slice(1)) path += `H${this.x(point.at).toFixed(1)}V${y(point[field])}`;
    path += `H${this.x(this.now).toFixed(1)}`;
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
    const from = this.chosen ?? this.now;
    this.choose(Math.min(this.until, Math.max(this.since, from + (step * (this.until - this.since)) / 60)));
  }

  choose(at) {
    this.chosen = at;
    const when = at ?? this.now;
    const near = at === null ? null : this.marks.find((mark) => Math.abs(this.x(mark.at) - this.x(at)) < 5);
    const says = when > this.now ? this.ahead(when) : this.held(when, at === null);
    this.values.textContent = `${at !== null ? moment(when) : isOld("cluster") ? "Last known" : "Now"}: ${says}${near ? ` · ${near.title}${near.count > 1 ? ` and ${near.count - 1} more` : ""}` : ""}`;
    if (!this.hair) return;
    this.hair.setAttribute("visibility", at === null ? "hidden" : "visible");
    for (const end of ["x1", "x2"]) this.hair.setAttribute(end, this.x(when));
  }

  held(when, isNow) {
    const point = this.points.findLast((each) => each.at <= when);
    if (!point) return "not known";
    const said = `${plural(point.workers ?? "?", "node")}, ${pendingPods(point)}, ${money(point.cost, this.currency)} an hour`;
    if (isNow) return this.bands.length ? `${said} · next ${brief(this.until - this.now)}: ${between(this.bands)} expected` : said;
    const asked = this.asked.findLast((each) => each.at <= when);
    return asked && when < asked.at + STEP_SECONDS ? `${said}, ${asked.pods} pods` : said;
  }

  ahead(when) {
    const band = this.bands.findLast((each) => each.at <= when) ?? this.bands[0];
    return `${between([band])} expected`;
  }
}

// The highest of them: half of the time no more than the first number, in 19 of 20 cases no more than the second.
function between(bands) {
  const [low, high] = ["p50", "p95"].map((level) => Math.ceil(Math.max(...bands.map((band) => band[level])) - 1e-9));
  return low === high ? `up to ${high} pods` : `${low} to ${high} pods`;
}

function pendingPods({ pending }) {
  return pending === null || pending === undefined ? "pending pods not known" : `${pending} pending`;
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
