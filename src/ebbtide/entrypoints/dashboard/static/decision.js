// One decision in full: a sentence for each action, then its checks. What merely was not needed is no fault.

import { ask } from "./api.js";
import { h, source } from "./dom.js";
import { plural, share } from "./words.js";

const NAMES = {
  adopt: "Follow unknown instances", forget: "Forget dead nodes", release: "Lift old cordons", retry: "Terminate again", scale_up: "Scale-up",
  repair: "Repair", scale_down: "Scale-down", replace: "Replace expired nodes", consolidate: "Consolidation",
};

export function decisionDetail(found) {
  const seen = found.snapshot;
  const replay = h("span", { class: "quiet", role: "status" });
  const button = h("button", { type: "button", "data-asks": "", onclick: async () => {
    try {
      const again = await ask(`/api/v1/decisions/${encodeURIComponent(found.id)}/replay`);
      replay.textContent = again.equal ? " Same result." : ` A different result: ${again.action}: ${again.reason}`;
    } catch (error) { replay.textContent = ` ${error.message}`; }
  } }, "Compute it again");
  // Of what was not read no count is known: 0 would be one.
  if (seen.problems.length && !seen.nodes) {
    return [h("p", {}, "Seen: nothing. ", h("span", { class: "bad" }, `${seen.problems.join("; ")}.`)),
      h("p", { class: "quiet" }, "Nothing is decided about a cluster that cannot be seen."), h("p", {}, button, replay), source(`/api/v1/decisions/${found.id}`, "from the API")];
  }
  return [
    h("p", { class: "quiet" }, `Seen: ${plural(seen.nodes, "node")} (${plural(seen.workers, "worker")}), ${plural(seen.pods, "pod")} (${seen.waiting} pending), CPU ${share(seen.cpu)}.`,
      seen.problems.length ? h("span", { class: "bad" }, ` Problems: ${seen.problems.join("; ")}.`) : ""),
    ...ordered(found.decision.verdicts).map((verdict) => verdictPart(found, verdict, seen.problems.length > 0)),
    h("p", {}, button, replay),
    source(`/api/v1/decisions/${found.id}`, "from the API"),
  ];
}

const failedIn = (verdict) => verdict.checks.filter((check) => !check.passed);

// What was done comes first, in full; what was not is a line with its reason, which opens.
function ordered(verdicts) {
  return [...verdicts].sort((one, other) => Number(failedIn(one).length > 0) - Number(failedIn(other).length > 0));
}

function verdictPart(found, verdict, blind) {
  const failed = failedIn(verdict);
  const name = NAMES[verdict.action] ?? verdict.action;
  if (!failed.length) return h("div", {}, h("h3", {}, `${name}: yes`), checksOf(found, verdict, blind));
  return h("details", { "data-key": `${found.id}-${verdict.action}-all` },
    h("summary", {}, h("strong", {}, `${name}: no`), `, ${failed.map((check) => check.says).join("; ")}.`), checksOf(found, verdict, blind));
}

function checksOf(found, verdict, blind) {
  return h("div", {},
    h("ul", { class: "checks" }, verdict.checks.map((check) => h("li", {}, mark(check.passed, blind),
      h("strong", {}, check.name), ": ", check.says))),
    verdict.refusals.length ? h("details", { "data-key": `${found.id}-${verdict.action}` }, h("summary", {}, `${plural(verdict.refusals.length, "node")} skipped`),
      h("ul", {}, verdict.refusals.map((refusal) => h("li", {}, h("a", { href: `#/why/?node=${encodeURIComponent(refusal.node_name)}` }, refusal.node_name), `: ${refusal.reason}`)))) : null);
}

// Red is for what went wrong: an observation that is incomplete. A limit that was not reached is a plain no.
function mark(passed, blind) {
  const [sign, tone, word] = passed ? ["✓", "good", "yes"] : blind ? ["✗", "bad", "not possible"] : ["–", "quiet", "no"];
  return h("span", { class: `mark ${tone}`, role: "img", "aria-label": word }, sign);
}
