// A few line icons, drawn here: no font and no image is loaded. They repeat what the text next to them says.

import { h, s } from "./dom.js";

const PATHS = {
  add: "M12 5v14M5 12h14",
  remove: "M5 12h14",
  pack: "M4 8l8-4 8 4-8 4zM4 8v8l8 4 8-4V8M12 12v8",
  spot: "M13 3L5 14h6l-1 7 8-11h-6z",
  alarm: "M12 4L2.5 20h19zM12 10v5M12 17.5v.5",
  person: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-4 4-6 8-6s8 2 8 6",
  sleep: "M20 14A8.5 8.5 0 1110 4a7 7 0 0010 10z",
  wake: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2",
  done: "M4 12l5 5L20 6",
  wait: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 8v4l3 2",
};

export function icon(name) {
  return s("svg", { class: `icon ${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: PATHS[name] ?? PATHS.done }));
}

// Before words, on one line with the first of them: a line would break between a picture and a space that does not break.
export function led(name, text, tag = "span") {
  const [first, ...rest] = text.split(" ");
  return h(tag, {}, h("span", { class: "whole" }, icon(name), "\u00a0", first), rest.length ? ` ${rest.join(" ")}` : "");
}
