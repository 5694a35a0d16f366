// Why: decisions, newest first, each with every precondition; and the whole life of a node.

import { ask } from "./api.js";
import { card, h, redraw, source } from "./dom.js";
import { moment, sentence, span } from "./words.js";

const STATES = ["launching", "launched", "joined", "ready", "planned", "draining", "drained", "terminating", "gone", "released"];

export function why(main, { rest, query, say }) {
  const wanted = rest[0] ?? "";
  let action = "";
  let node = query.get("node") ?? "";
  let entries = [];
  let more = "";
  let newest = "";
  const list = h("div");
  const life = h("div");
  const unfolded = new Map();

  const actions = ["", "scale_up", "scale_down", "consolidate", "adopt", "forget", "release", "nothing"];
  const choose = h("select", { id: "action", onchange: (event) => { action = event.target.value; draw(); } },
    actions.map((each) => h("option", { value: each }, each ? each.replace("_", "-") : "all")));
  const field = h("input", { id: "node", value: node, placeholder: "all", spellcheck: "false" });
  const form = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); node = field.value.trim(); refreshLife().catch((error) => say(error.message)); draw(); } },
    h("label", { for: "action" }, "Action"), choose, h("label", { for: "node" }, "Node"), field, h("button", { type: "submit" }, "Show"));
  main.append(h("h1", {}, "Why"), h("section", { class: "card" }, form), life, card("Decisions, newest first", list, source("/api/v1/decisions")));

  function matches(entry) {
    if (action && (entry.data.action ?? "nothing") !== action) return false;
    return !node || (entry.data.nodes ?? []).includes(node) || (unfolded.get(entry.id)?.mentions ?? "").includes(node);
  }

  function draw() {
    const rows = entries.filter(matches).map((entry) => {
      const body = h("div", {});
      const row = h("details", { "data-key": entry.id, ontoggle: () => { if (row.open) unfold(entry.id, body); } },
        h("summary", {}, h("time", { datetime: new Date(entry.at * 1000).toISOString() }, moment(entry.at)), sentence(entry.says)), body);
      if (unfolded.has(entry.id)) body.replaceChildren(...detail(unfolded.get(entry.id)));
      if (entry.id === wanted && !unfolded.has(`${entry.id}-shown`)) { unfolded.set(`${entry.id}-shown`, true); row.open = true; }
      return row;
    });
    redraw(list, [...rows, rows.length ? null : h("p", { class: "quiet" }, "No decision matches."),
      more ? h("p", {}, h("button", { type: "button", "data-key": "more", onclick: () => load().catch((error) => say(error.message)) }, "Older ones")) : null]);
  }

  async function unfold(id, body) {
    if (unfolded.get(id)?.decision) return;
    try {
      const found = await ask(`/api/v1/decisions/${encodeURIComponent(id)}`);
      unfolded.set(id, { ...found, mentions: JSON.stringify(found.decision) });
      body.replaceChildren(...detail(unfolded.get(id)));
    } catch (error) { body.replaceChildren(h("p", { class: "bad" }, error.message)); }
  }

  function detail(found) {
    const seen = found.snapshot;
    const replay = h("span", { class: "quiet", role: "status" });
    const button = h("button", { type: "button", onclick: async () => {
      try {
        const again = await ask(`/api/v1/decisions/${encodeURIComponent(found.id)}/replay`);
        replay.textContent = again.equal ? " It comes out the same." : ` It comes out otherwise: ${again.action}: ${again.reason}`;
      } catch (error) { replay.textContent = ` ${error.message}`; }
    } }, "Compute it again");
    return [
      h("p", { class: "quiet" }, `Seen: ${seen.nodes} nodes (${seen.workers} workers), ${seen.pods} pods (${seen.waiting} waiting), CPU ${seen.cpu === null ? "unknown" : seen.cpu.toFixed(2)}.`,
        seen.problems.length ? ` Problems: ${seen.problems.join("; ")}.` : ""),
      ...found.decision.verdicts.map((verdict) => h("div", {},
        h("h3", {}, verdict.action.replace("_", "-"), verdict.checks.every((check) => check.passed) ? ": yes" : ": no"),
        h("ul", { class: "checks" }, verdict.checks.map((check) => h("li", {},
          h("span", { class: `mark ${check.passed ? "good" : "bad"}`, "aria-hidden": "true" }, check.passed ? "✓" : "✗"),
          h("strong", {}, check.name), check.passed ? " held: " : " did not hold: ", check.says))),
        verdict.refusals.length ? h("details", { "data-key": `${found.id}-${verdict.action}` }, h("summary", {}, `${verdict.refusals.length} nodes passed over`),
          h("ul", {}, verdict.refusals.map((refusal) => h("li", {}, h("a", { href: `#/why/?node=${encodeURIComponent(refusal.node_name)}` }, refusal.node_name), `: ${refusal.reason}`)))) : null)),
      h("p", {}, button, replay),
      source(`/api/v1/decisions/${found.id}`),
    ];
  }

  async function refreshLife() {
    if (!node) { life.replaceChildren(); return; }
    const path = `/api/v1/log?limit=200&subject=${encodeURIComponent(node)}`;
    const [found, nodes, status] = await Promise.all([ask(path), ask("/api/v1/nodes"), ask("/api/v1/status")]);
    const seen = nodes.nodes.find((each) => each.name === node);
    const lines = [...found.entries].reverse();
    const kept = seen?.kept_because;
    redraw(life, card(`The life of ${node}`, seen
      ? h("p", {}, `It is ${seen.state}, ${span(status.now - seen.created_at)} old, a ${seen.instance_type} in ${seen.zone}.`, kept ? h("strong", {}, ` Not removed: ${kept}.`) : "")
      : h("p", {}, "It is not in the cluster now."),
    bar(lines, status.now),
    lines.length ? h("ol", {}, lines.map((entry) => h("li", {}, h("time", { class: "quiet" }, `${moment(entry.at)} `), entry.says)))
      : h("p", { class: "quiet" }, "The log tells nothing of it: no operation has touched it."), source(path)));
  }

  function bar(lines, until) {
    const steps = lines.map((entry) => ({ at: entry.at, state: entry.data.after?.toLowerCase() })).filter((step) => STATES.includes(step.state));
    if (steps.length < 2) return null;
    const strip = h("div", { class: "life", role: "img", "aria-label": steps.map((step) => step.state).join(", then ") });
    steps.forEach((step, at) => {
      const end = steps[at + 1]?.at ?? (step.state === "gone" ? step.at : until);
      const part = h("span", { "data-state": { launching: "joining", launched: "joining", joined: "joining", planned: "chosen" }[step.state] ?? step.state, title: step.state });
      part.style.setProperty("flex-grow", String(Math.max(1, end - step.at)));
      strip.append(part);
    });
    return strip;
  }

  async function load() {
    const page = more ? `&page_token=${encodeURIComponent(more)}` : "";
    const found = await ask(`/api/v1/decisions?limit=50${page}`);
    entries = [...entries, ...found.entries];
    more = found.next_page_token;
    draw();
  }

  return {
    async refresh() {
      const found = await ask("/api/v1/decisions?limit=50");
      const first = found.entries[0]?.id ?? "";
      if (!entries.length) { entries = found.entries; more = found.next_page_token; } else if (first !== newest) {
        const known = new Set(entries.map((entry) => entry.id));
        entries = [...found.entries.filter((entry) => !known.has(entry.id)), ...entries];
      }
      if (wanted && !entries.some((entry) => entry.id === wanted)) {
        const one = await ask(`/api/v1/decisions/${encodeURIComponent(wanted)}`);
        entries = [...entries, { id: one.id, at: one.at, says: `${one.action}: ${one.reason}`, data: { action: one.action } }];
      }
      if (first !== newest || !list.children.length) { newest = first; draw(); }
      await refreshLife();
    },
  };
}
