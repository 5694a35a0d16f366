// Charts as SVG: a line over time, bars by day, stacked or side by side. Both axes have units; the numbers of each
// chart are also in a table next to it.

import { s } from "./dom.js";

const H = 220;
const L = 52;
const R = 8;
const T = 22;
const B = 26;
const WIDEST_BAR = 28;
// From here on the style sheet puts two cards next to each other.
const TWO_COLUMNS = 1096;

// Drawn about as wide as it will be shown, so the words in it are not scaled down with it.
function frame(label, unit, columns = 2) {
  const page = document.getElementById("page").clientWidth;
  const W = Math.max(300, (columns > 1 && page > TWO_COLUMNS ? page / 2 : page) - 70);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${label}, in ${unit}` });
  svg.append(words(0, 12, "start", unit));
  return { svg, W };
}

function words(x, y, anchor, text) {
  const element = s("text", { x, y, "text-anchor": anchor });
  element.textContent = text;
  return element;
}

function ticks(most) {
  const step = 10 ** Math.floor(Math.log10(most || 1));
  const fine = most / step > 5 ? step * 2 : most / step > 2 ? step : step / 2;
  const found = [];
  for (let at = 0; at <= most * 1.001; at += fine) found.push(at);
  return found;
}

function grid({ svg, W }, most) {
  const marks = ticks(most);
  const digits = marks.length > 1 ? Math.max(0, Math.ceil(-Math.log10(marks[1]) + 0.001)) : 0;
  for (const value of marks) {
    const y = H - B - (value / most) * (H - B - T);
    svg.append(s("line", { class: "axis", x1: L, x2: W - R, y1: y, y2: y }), words(L - 6, y + 4, "end", value.toFixed(digits)));
  }
}

// Whole hours, half days or days, as many as there is room for.
function times(first, last, W) {
  const room = Math.max(2, Math.floor((W - L) / 90));
  const step = [3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600, 604800].find((each) => (last - first) / each <= room) ?? 1209600;
  const offset = new Date(first * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at = Math.ceil((first - offset) / step) * step + offset; at <= last; at += step) found.push(at);
  return found.map((at) => [at, step < 86400 ? new Date(at * 1000).toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" }) : new Date(at * 1000).toLocaleDateString([], { month: "short", day: "numeric" })]);
}

export function lineOver(points, label, unit) {
  const { svg, W } = frame(label, unit);
  if (points.length < 2) return svg;
  const first = points[0].at;
  const last = points[points.length - 1].at;
  const wide = last - first || 1;
  const most = Math.max(...points.map((point) => point.value)) * 1.1 || 1;
  grid({ svg, W }, most);
  const at = (moment) => L + ((moment - first) / wide) * (W - L - R);
  const y = (point) => H - B - (point.value / most) * (H - B - T);
  // A price holds until it changes: steps, not slopes.
  let path = `M${at(first)},${y(points[0])}`;
  for (const point of points.slice(1)) path += `H${at(point.at).toFixed(1)}V${y(point).toFixed(1)}`;
  svg.append(s("path", { class: "area", d: `${path}V${H - B}H${L}Z` }), s("path", { class: "line", d: path }));
  for (const [moment, text] of times(first, last, W)) {
    const x = Math.min(Math.max(at(moment), L + 24), W - R - 24);
    svg.append(s("line", { class: "axis", x1: at(moment), x2: at(moment), y1: H - B, y2: H - B + 4 }), words(x, H - 8, "middle", text));
  }
  return svg;
}

export function barsByDay(days, names, label, unit) {
  return bars(days, names, frame(label, unit), label, false);
}

export function stackedByDay(days, names, label, unit) {
  return bars(days, names, frame(label, unit, 1), label, true);
}

function bars(days, names, drawn, label, stacked) {
  const { svg, W } = drawn;
  if (!days.length) return svg;
  const value = (day, name) => Math.max(0, day[name]);
  const tallest = days.map((day) => (stacked ? names.reduce((sum, name) => sum + value(day, name), 0) : Math.max(...names.map((name) => value(day, name)))));
  const most = Math.max(...tallest) * 1.1 || 1;
  grid(drawn, most);
  const wide = (W - L - R) / days.length;
  const bar = Math.min(WIDEST_BAR, (wide * 0.8) / (stacked ? 1 : names.length));
  const every = Math.ceil(days.length / Math.max(2, Math.floor((W - L) / 56)));
  days.forEach((day, at) => {
    let base = 0;
    names.forEach((name, number) => {
      const tall = (value(day, name) / most) * (H - B - T);
      const x = L + at * wide + (wide - bar * (stacked ? 1 : names.length)) / 2 + (stacked ? 0 : number * bar);
      const mark = s("rect", { class: name, x: x.toFixed(1), y: (H - B - base - tall).toFixed(1), width: Math.max(1, bar - 1).toFixed(1), height: Math.max(0, tall).toFixed(1) });
      const title = s("title");
      title.textContent = `${day.date}: ${name.replaceAll("_", " ")} ${day[name].toFixed(2)}`;
      mark.append(title);
      svg.append(mark);
      if (stacked) base += tall;
    });
    if (at % every === 0) svg.append(words(L + at * wide + wide / 2, H - 8, "middle", shortDay(day.date)));
  });
  return svg;
}

function shortDay(date) {
  return new Date(`${date}T12:00:00Z`).toLocaleDateString([], { month: "short", day: "numeric", timeZone: "UTC" });
}
