// Why: what was done and why, newest first; what led to nothing folds into one row; answers for one node or pod.

import { ask } from "./api.js";
import { nodeAnswer, podAnswer } from "./answers.js";
import { decisionDetail } from "./decision.js";
import { card, h, redraw, source } from "./dom.js";
import { FILTERS, fits, folded, kindOf } from "./folding.js";
import { capital, happening } from "./happenings.js";
import { led } from "./icons.js";
import { plural, sentence, span, when } from "./words.js";

const PATH = "/api/v1/log?limit=100&kind=decision&kind=spot.event";
const NOTICES = 3;
const ICONS = { scale_up: "add", scale_down: "remove", consolidate: "pack", spot: "spot", cleanup: "done" };

export function why(main, { rest, query, say }) {
  const wanted = rest[0] ?? "";
  let filter = "";
  let asked = query.get("node") ?? query.get("pod") ?? "";
  let isNode = query.has("node") || !asked.includes("/");
  let entries = [];
  let more = "";
  let newest = "";
  let now = 0;
  let open = new Set();
  const list = h("div");
  const answer = h("div", { "aria-live": "polite", "data-from": "cluster" });
  const details = new Map();

  const chips = FILTERS.map(([kind, name]) => h("button", { type: "button", class: "chip", "aria-pressed": String(!kind), onclick: () => choose(kind) }, name));
  const field = h("input", { id: "asked", value: asked, placeholder: "node, or namespace/pod", spellcheck: "false" });
  const form = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); asked = field.value.trim(); isNode = !asked.includes("/"); refreshAnswer().catch((error) => say(error.message)); } },
    h("label", { for: "asked" }, "Node or pod"), field, h("button", { type: "submit", "data-asks": "" }, "Ask why"));
  main.append(h("h1", {}, "Why"), h("section", { class: "card", "aria-label": "Ask about a node or a pod" }, form), answer,
    card("Decisions, newest first", h("p", { class: "row", role: "group", "aria-label": "Show only" }, chips), list, source(PATH)));

  function choose(kind) {
    filter = kind;
    chips.forEach((chip, at) => chip.setAttribute("aria-pressed", String(FILTERS[at][0] === kind)));
    draw();
  }

  function draw() {
    const shown = entries.filter((entry) => fits(entry, filter));
    open = new Set([...list.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    const groups = folded(shown, now);
    redraw(list, [...groups.flatMap((group) => (group.entries.length > (group.kind === "spot" ? NOTICES : 1) ? [foldedRow(group)] : group.entries.map(row))),
      groups.length ? null : h("p", { class: "quiet" }, "No decision of this kind among those loaded."),
      more ? h("p", {}, h("button", { type: "button", "data-asks": "", "data-key": "more", onclick: () => load().catch((error) => say(error.message)) }, "Older decisions")) : null]);
  }

  function foldedRow(group) {
    const body = h("div", { class: "inner" });
    const fill = () => { if (!body.children.length) body.append(...group.entries.map(row)); };
    const key = `${group.kind}-${group.entries.at(-1).id}`;
    const said = group.kind === "spot" ? [h("time", {}, stretch(group)), led("spot", `${plural(group.entries.length, "notice")} for spot nodes`)]
      : [h("time", {}, stretch(group)), "Nothing new decided ",
        h("span", { class: "quiet" }, `for ${span(group.until - group.since)} (${plural(group.entries.length, "decision")})`, h("span", { class: "last" }, `; the last one, of ${when(group.entries[0].at, now)}: ${reasonOf(group.entries[0])}`))];
    const element = h("details", { "data-key": key, class: group.kind === "spot" ? "notices" : "idle", ontoggle: () => { if (element.open) fill(); } },
      h("summary", { class: group.kind === "spot" ? "warn" : "" }, said), body);
    // A row that somebody is reading stays open when its group folds.
    const read = (entry) => open.has(entry.id) || (entry.id === wanted && !details.has(`${wanted}-shown`));
    if (open.has(key) || group.entries.some(read)) { fill(); element.open = true; }
    return element;
  }

  function stretch({ since, until }) {
    return since === until ? when(since, now) : `${when(since, now)} to ${when(until, since)}`;
  }

  function row(entry) {
    const kind = kindOf(entry);
    const title = kind === "nothing" ? [sentence(entry.says)] : [led(ICONS[kind] ?? "done", capital(sentence(entry.says)), "strong")];
    const time = h("time", { datetime: new Date(entry.at * 1000).toISOString() }, when(entry.at, now));
    if (kind === "spot") return h("p", { class: "decision warn" }, time, led("spot", happening(entry).title, "strong"));
    const body = h("div", { class: "detail" });
    const element = h("details", { "data-key": entry.id, class: kind, ontoggle: () => { if (element.open) unfold(entry.id, body); } }, h("summary", {}, time, ...title), body);
    if (details.has(entry.id)) body.replaceChildren(...decisionDetail(details.get(entry.id)));
    if (entry.id === wanted && !details.has(`${wanted}-shown`)) { details.set(`${wanted}-shown`, true); element.open = true; }
    return element;
  }

  async function unfold(id, body) {
    if (details.get(id)?.decision) return;
    if (!body.children.length) body.append(h("p", { class: "quiet" }, "Reading …"));
    try {
      details.set(id, await ask(`/api/v1/decisions/${encodeURIComponent(id)}`));
      body.replaceChildren(...decisionDetail(details.get(id)));
    } catch (error) { body.replaceChildren(h("p", { class: "bad" }, error.message)); }
  }

  async function refreshAnswer() {
    if (!asked) { answer.replaceChildren(); return; }
    redraw(answer, isNode ? await nodeAnswer(asked, now) : await podAnswer(asked, now));
  }

  async function load() {
    const found = await ask(`${PATH}&page_token=${encodeURIComponent(more)}`);
    entries = [...entries, ...found.entries];
    more = found.next_page_token;
    draw();
  }

  return {
    async refresh(status) {
      now = status.now;
      const found = await ask(PATH);
      const first = found.entries[0]?.id ?? "";
      if (first !== newest) {
        const known = new Set(entries.map((entry) => entry.id));
        const news = found.entries.filter((entry) => !known.has(entry.id));
        // Where nothing of the page is known, more happened than it holds: what was shown before does not join on.
        if (news.length === found.entries.length) { entries = news; more = found.next_page_token; } else entries = [...news, ...entries];
      }
      if (wanted && !entries.some((entry) => entry.id === wanted)) {
        const one = await ask(`/api/v1/decisions/${encodeURIComponent(wanted)}`);
        entries = [...entries, { id: one.id, at: one.at, kind: "decision", says: `${one.action}: ${one.reason}`, data: { action: one.action } }];
      }
      if (first !== newest || !list.children.length) { newest = first; draw(); }
      await refreshAnswer();
    },
  };
}

function reasonOf(entry) {
  return sentence(entry.says).replace(/^Nothing new decided: /, "");
}
