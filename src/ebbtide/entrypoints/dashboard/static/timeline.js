// Operations in progress, each node with the steps it has passed, the one it is at, and those to come.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { plural, span } from "./words.js";

const STEPS = {
  launch: [["RESERVED", "planned"], ["LAUNCHING", "requested"], ["LAUNCHED", "started"], ["JOINED", "joined"], ["READY", "ready"]],
  removal: [["PLANNED", "planned"], ["DRAINING", "draining"], ["DRAINED", "drained"], ["TERMINATING", "terminating"], ["GONE", "gone"]],
  emptying: [["PLANNED", "planned"], ["MARKED", "emptying"], ["EMPTIED", "empty"]],
};
const ICONS = { "scale-up": "add", "scale-down": "remove", consolidation: "pack" };
const TITLES = { "scale-up": "Adding nodes", "scale-down": "Removing nodes", consolidation: "Consolidation", "spot interruption": "Spot node taken back", "spot rebalance": "Spot node at risk" };

export function timeline(operation, now, setAside) {
  const moves = operation.steps.filter((step) => step.kind === "move");
  const moved = moves.filter((step) => step.state === "MOVED").length;
  return h("article", { class: "operation" },
    h("h3", {}, icon(ICONS[operation.kind] ?? "spot"), ` ${TITLES[operation.kind] ?? operation.kind}`, h("small", { class: "quiet" }, ` started ${span(now - operation.started_at)} ago`)),
    h("p", {}, operation.reason),
    operation.abort_reason ? h("p", { class: "warn" }, `Aborting: ${operation.abort_reason}`) : null,
    setAside ? h("p", { class: "bad" }, "Set aside until `ebbtide resume`.") : null,
    moves.length ? h("p", {}, h("progress", { max: moves.length, value: moved, "aria-label": "Pods moved" }), ` ${moved} of ${plural(moves.length, "pod")} moved`) : null,
    h("ul", { class: "steps" }, together(operation.steps.filter((step) => step.kind !== "move")).map(({ step, count }) => part(step, now, count))),
    h("p", { class: "quiet id" }, `Operation ${operation.id}`));
}

// New nodes of one zone at the same step are one line: eleven equal lines say no more than "4 new nodes" three times.
function together(steps) {
  const found = new Map();
  for (const step of steps) {
    const nameless = step.kind === "launch" && ["RESERVED", "LAUNCHING", "LAUNCHED"].includes(step.state);
    const key = nameless ? `${step.state} ${step.zone}` : `${step.kind} ${step.name}`;
    const known = found.get(key);
    if (known) known.count += 1;
    else found.set(key, { step, count: 1 });
  }
  return [...found.values()];
}

function part(step, now, count) {
  const track = STEPS[step.kind] ?? [];
  const at = track.findIndex(([state]) => state === step.state);
  const word = at < 0 ? step.state.toLowerCase().replace("_", " ") : track[at][1];
  const left = step.left === null || step.left === undefined || !step.left ? "" : `, ${plural(step.left, "pod")} still to move`;
  const since = step.since ? (step.kind === "launch" && ["JOINED", "READY"].includes(step.state) ? `, launched ${span(now - step.since)} ago` : ` for ${span(now - step.since)}`) : "";
  return h("li", {},
    h("strong", {}, step.kind === "launch" && at < 3 ? `${count > 1 ? `${count} new nodes` : "New node"}${step.zone ? ` in ${step.zone}` : ""}` : step.name),
    h("span", { class: at < 0 ? "warn" : "quiet" }, ` ${word}${left}${since}`, step.reason ? `: ${step.reason}` : ""),
    at < 0 ? null : h("ol", { class: "track", "aria-hidden": "true" }, track.map(([, name], number) =>
      h("li", { class: number < at ? "past" : number === at ? "here" : "" }, name))));
}
