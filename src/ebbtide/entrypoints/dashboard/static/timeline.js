// Operations in progress, each node with the steps it has passed, the one it is at, and those to come.

import { h } from "./dom.js";
import { capital } from "./happenings.js";
import { icon } from "./icons.js";
import { plural, roughly, span } from "./words.js";

const STEPS = {
  launch: [["RESERVED", "planned"], ["LAUNCHING", "requested"], ["LAUNCHED", "started"], ["JOINED", "joined"], ["READY", "ready"]],
  removal: [["PLANNED", "planned"], ["DRAINING", "draining"], ["DRAINED", "drained"], ["TERMINATING", "terminating"], ["GONE", "gone"]],
  emptying: [["PLANNED", "planned"], ["MARKED", "emptying"], ["EMPTIED", "empty"]],
};
const NAMED = 3;
const ICONS = { "scale-up": "add", "scale-down": "remove", consolidation: "pack" };
const TITLES = { "scale-up": "Adding nodes", "scale-down": "Removing nodes", consolidation: "Consolidation", "spot interruption": "Spot node taken back", "spot rebalance": "Spot node at risk" };
const SEVERAL = { "spot interruption": "spot nodes taken back", "spot rebalance": "spot nodes at risk" };

// Notices of one kind that come together are one timeline: the cloud often takes many nodes at once.
export function joined(spots) {
  const kinds = new Map();
  for (const spot of spots) kinds.set(spot.kind, [...(kinds.get(spot.kind) ?? []), spot]);
  return [...kinds.values()].flatMap((group) => (group.length > NAMED
    ? [{ ...group[0], count: group.length, steps: whatGoesFirst(group.flatMap((spot) => spot.steps)), started_at: Math.min(...group.map((spot) => spot.started_at)) }] : group));
}

function whatGoesFirst(steps) {
  const comes = (step) => Number(step.kind === "launch");
  return steps.sort((one, other) => comes(one) - comes(other));
}

export function timeline(operation, now, setAside) {
  const moves = operation.steps.filter((step) => step.kind === "move");
  const moved = moves.filter((step) => step.state === "MOVED").length;
  return h("article", { class: "operation" },
    h("h3", {}, icon(ICONS[operation.kind] ?? "spot"), ` ${operation.count ? `${operation.count} ${SEVERAL[operation.kind] ?? operation.kind}` : TITLES[operation.kind] ?? operation.kind}`, h("small", { class: "quiet" }, ` started ${span(now - operation.started_at)} ago`)),
    operation.count ? null : h("p", {}, capital(operation.reason.replace(/^consolidation: /, ""))),
    operation.abort_reason ? h("p", { class: "warn" }, `Aborting: ${operation.abort_reason}`) : null,
    setAside ? h("p", { class: "bad" }, "Set aside until `ebbtide resume`.") : null,
    moves.length ? h("p", {}, h("progress", { max: moves.length, value: moved, "aria-label": "Pods moved" }), ` ${moved} of ${plural(moves.length, "pod")} moved`) : null,
    h("ul", { class: "steps" }, together(operation.steps.filter((step) => step.kind !== "move")).map((each) => part(each, now))),
    operation.count ? null : h("p", { class: "quiet id", title: operation.id }, `Operation …${operation.id.slice(-6)}`));
}

// Nodes at the same step are one line: forty equal lines say no more than "23 nodes", and push all else off the page.
function together(steps) {
  const found = new Map();
  for (const step of steps) {
    const nameless = step.kind === "launch" && ["RESERVED", "LAUNCHING", "LAUNCHED"].includes(step.state);
    const key = nameless ? `${step.state} ${step.zone}` : `${step.kind} ${step.state} ${step.reason ?? ""}`;
    found.set(key, [...(found.get(key) ?? []), { step, nameless }]);
  }
  return [...found.values()].flatMap((group) => (group[0].nameless || group.length > NAMED ? [merged(group.map(({ step }) => step))] : group.map(({ step }) => merged([step]))));
}

// How many pods are left is added up; the longest wait counts.
function merged(steps) {
  const left = steps.some((step) => step.left) ? steps.reduce((sum, step) => sum + (step.left ?? 0), 0) : null;
  const since = Math.min(...steps.map((step) => step.since || Infinity));
  const until = Math.max(...steps.map((step) => step.until));
  return { step: { ...steps[0], left, until, since: Number.isFinite(since) ? since : 0 }, count: steps.length, names: steps.map((step) => step.name) };
}

function titled(step, count, names, fresh) {
  if (fresh) return `${count > 1 ? `${count} new nodes` : "New node"}${step.zone ? ` in ${step.zone}` : ""}`;
  return count > 1 ? h("span", { title: names.join(", ") }, plural(count, "node")) : step.name;
}

function part({ step, count, names }, now) {
  const track = STEPS[step.kind] ?? [];
  const at = track.findIndex(([state]) => state === step.state);
  const word = at < 0 ? step.state.toLowerCase().replace("_", " ") : track[at][1];
  const left = step.left === null || step.left === undefined || !step.left ? "" : `, ${plural(step.left, "pod")} still to move`;
  const ago = span(now - step.since);
  const since = !step.since ? "" : step.kind !== "launch" || at < 0 ? ` for ${ago}` : ["JOINED", "READY"].includes(step.state) ? `, launched ${ago} ago` : ` ${ago} ago`;
  const ends = step.until > now ? `, ${step.kind === "launch" ? `about ${roughly(step.until - now)}` : `at most ${span(step.until - now)}`} left` : "";
  return h("li", {},
    h("strong", {}, titled(step, count, names, step.kind === "launch" && at < 3)),
    h("span", { class: at < 0 ? "warn" : "quiet" }, ` ${word}${left}${since}${ends}`, step.reason ? `: ${step.reason}` : ""),
    at < 0 ? null : h("ol", { class: "track", "aria-hidden": "true" }, track.map(([, name], number) =>
      h("li", { class: number < at ? "past" : number === at ? "here" : "" }, name))));
}
