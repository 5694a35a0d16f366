// Two small charts as SVG: a line over time, and bars by day. Each has its numbers in a table next to it.

import { s } from "./dom.js";

let W = 640;
const H = 200;
const L = 56;
const B = 24;
const WIDEST_BAR = 28;
const TWO_COLUMNS = 920;

// Drawn about as wide as it will be shown, so the words in it are not scaled down with it.
function frame(label) {
  const page = document.getElementById("page").clientWidth;
  W = Math.min(640, Math.max(300, (page > TWO_COLUMNS ? page / 2 : page) - 70));
  return s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
}

function ticks(most) {
  const step = 10 ** Math.floor(Math.log10(most || 1));
  const fine = most / step > 5 ? step * 2 : most / step > 2 ? step : step / 2;
  const found = [];
  for (let at = 0; at <= most * 1.001; at += fine) found.push(at);
  return found;
}

function grid(svg, most, digits) {
  for (const value of ticks(most)) {
    const y = H - B - (value / most) * (H - B - 10);
    svg.append(s("line", { class: "axis", x1: L, x2: W, y1: y, y2: y }));
    const text = s("text", { x: L - 6, y: y + 4, "text-anchor": "end" });
    text.textContent = value.toFixed(digits);
    svg.append(text);
  }
}

export function lineOver(points, label, digits = 2) {
  const svg = frame(label);
  if (points.length < 2) return svg;
  const first = points[0].at;
  const wide = points[points.length - 1].at - first || 1;
  const most = Math.max(...points.map((point) => point.value)) * 1.1 || 1;
  grid(svg, most, digits);
  const x = (point) => L + ((point.at - first) / wide) * (W - L - 4);
  const y = (point) => H - B - (point.value / most) * (H - B - 10);
  // A price holds until it changes: steps, not slopes.
  let path = `M${x(points[0])},${y(points[0])}`;
  for (const point of points.slice(1)) path += `H${x(point).toFixed(1)}V${y(point).toFixed(1)}`;
  svg.append(s("path", { class: "area", d: `${path}V${H - B}H${L}Z` }), s("path", { class: "line", d: path }));
  for (const [point, anchor] of [[points[0], "start"], [points[points.length - 1], "end"]]) {
    const text = s("text", { x: x(point), y: H - 6, "text-anchor": anchor });
    text.textContent = new Date(point.at * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
    svg.append(text);
  }
  return svg;
}

export function barsByDay(days, names, label) {
  const svg = frame(label);
  if (!days.length) return svg;
  const digits = Math.max(...days.flatMap((day) => names.map((name) => day[name]))) < 1 ? 4 : 2;
  const most = Math.max(...days.flatMap((day) => names.map((name) => Math.max(0, day[name])))) * 1.1 || 1;
  grid(svg, most, digits);
  const wide = (W - L) / days.length;
  days.forEach((day, at) => {
    names.forEach((name, number) => {
      const bar = Math.min(WIDEST_BAR, (wide * 0.8) / names.length);
      const start = L + at * wide + (wide - bar * names.length) / 2;
      const tall = (Math.max(0, day[name]) / most) * (H - B - 10);
      const mark = s("rect", { class: name, x: start + number * bar, y: H - B - tall, width: Math.max(1, bar - 1), height: tall });
      const title = s("title");
      title.textContent = `${day.date}: ${name} ${day[name].toFixed(digits)}`;
      mark.append(title);
      svg.append(mark);
    });
    if (days.length <= 10 || at % Math.ceil(days.length / 8) === 0) {
      const text = s("text", { x: L + at * wide + wide / 2, y: H - 6, "text-anchor": "middle" });
      text.textContent = day.date.slice(5);
      svg.append(text);
    }
  });
  return svg;
}
