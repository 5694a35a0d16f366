// Now: what is going on in one sentence, the last hours, nodes, operations with their steps, events, and the brakes.

import { ask } from "./api.js";
import { card, stats, h, redraw, source } from "./dom.js";
import { Faults } from "./faults.js";
import { Feed } from "./feed.js";
import { kindOf } from "./folding.js";
import { isOld, sampledAgo } from "./health.js";
import { Tiles, legend } from "./tiles.js";
import { joined, timeline } from "./timeline.js";
import { Trend } from "./trend.js";
import { clock, decided, decidedAt, lower, money, sentence, share, span } from "./words.js";

const SHOWN = 8;
const HOURS = [1, 6, 24];
const TREND_MS = 5000;

// Where its values come from: greyed while that cannot be read.
function of(origin, element) {
  element.dataset.from = origin;
  return element;
}

export function now(main, { say, refresh, drawn }) {
  let status = null;
  let nodes = null;
  let forecast = null;
  let costs = null;
  const tiles = new Tiles((name) => { tiles.picked = tiles.picked === name ? "" : name; draw(); });
  const feed = new Feed(say);
  const faults = new Faults(say, refresh);
  const trend = new Trend();
  let hours = 6;
  let drawnAt = -Infinity;
  let whole = false;
  const ranges = HOURS.map((each) => h("button", { type: "button", class: "chip", "data-asks": "", "aria-pressed": String(each === hours), onclick: () => range(each) }, `${each} h`));
  const parts = { says: h("div"), numbers: h("div"), headroom: h("div"), picked: h("div", { "aria-live": "polite" }), operation: h("div"), waiting: of("cluster", h("div")), unknown: h("div"), brakes: h("div") };
  main.append(
    h("h1", { class: "hidden" }, "Now"),
    h("section", { class: "card hero", "aria-label": "Now", "data-present": "", onstale: () => status && draw() }, parts.says, of("cluster", parts.numbers), parts.headroom, source("/api/v1/status")),
    faults.buttons,
    h("div", { class: "desk" },
      // On a phone in this order: what is in progress first, what holds it back last.
      h("div", {}, faults.panel, parts.operation),
      h("div", { class: "body" },
        of("cluster", card("Last hours", h("p", { class: "row", role: "group", "aria-label": "Range" }, ranges), trend.element, h("p", { class: "quiet source" }, "A dot is an event of the list below."), source("/api/v1/costs"))),
        of("cluster", card("Nodes", tiles.choice, parts.unknown, tiles.element, legend(), parts.picked, source("/api/v1/nodes"))),
        feed.element),
      h("div", {}, parts.waiting, parts.brakes)),
  );

  function range(chosen) {
    hours = chosen;
    ranges.forEach((button, at) => button.setAttribute("aria-pressed", String(HOURS[at] === chosen)));
    drawnAt = -Infinity;
    refresh();
  }

  async function history() {
    const news = await feed.refresh(status.now);
    if (news || performance.now() - drawnAt >= TREND_MS) {
      drawnAt = performance.now();
      [costs, forecast] = await Promise.all([ask(`/api/v1/costs?hours=${hours}`), forecast?.enabled === false ? forecast : ask("/api/v1/forecast")]);
    }
    // What is said of now comes from the status each time: next to it, seconds later, another number would be wrong.
    if (!costs) return;
    const marks = feed.events.filter((event) => event.group !== "sleep").map(({ at, title, tone }) => ({ at, title, tone }));
    const known = counted("known") === "known";
    const current = known ? { workers: status.workers, pending: status.waiting.length, ...(status.cost_per_hour === null ? {} : { cost: Number(status.cost_per_hour) }) } : null;
    trend.update(costs, marks, status.now, hours, forecast, current);
  }

  // A count of what was never read is unknown, not 0.
  function counted(text) {
    return status.stale.some((each) => each.source === "cluster" && !each.at) ? "unknown" : text;
  }

  function draw() {
    tiles.update(nodes.nodes.filter((node) => node.worker), status.now);
    redraw(parts.says, [h("p", { class: "headline", role: "status" }, `${headline()}.`),
      // The link comes first: a long sentence is cut, so the page below it does not jump with its length.
      h("p", { class: `quiet tick${whole ? " whole-text" : ""}`, title: status.says }, status.last_decision
        ? [h("a", { href: `#/why/${encodeURIComponent(status.last_decision.id)}`, "data-key": "decision" },
          `Decision of ${clock(status.last_decision.at)}`), stands() ? ", unchanged since. " : ". "] : "", "Latest: ", sentence(decided(status.says)),
        h("button", { type: "button", hidden: true, "data-key": "more", "aria-expanded": String(whole), onclick: () => { whole = !whole; draw(); } }, whole ? "less" : "more")),
      status.last_alarm && status.now - status.last_alarm.at < 3600
        ? h("p", { class: "warn" }, `Alarm at ${clock(status.last_alarm.at)}: ${status.last_alarm.says}`) : null,
      ...status.stale.length ? [] : status.problems.map((problem) => h("p", { class: "bad" }, problem))].flat());
    const tick = main.querySelector(".tick");
    if (tick) tick.querySelector("button").hidden = !whole && tick.scrollHeight <= tick.clientHeight;
    redraw(parts.numbers, stats([
      ["workers", counted(`${status.workers} of ${status.max_workers}`)],
      ["pods on nodes", counted(status.pods)], ["pending", counted(status.waiting.length), status.waiting.length ? "warn" : ""],
      ["CPU", status.cpu === null && status.last_cpu !== null ? `${share(status.last_cpu)} (old)` : share(status.cpu), "", "metrics"],
      ["cost an hour", money(status.cost_per_hour, status.currency), status.unpriced ? "warn" : ""],
      ["last tick", !status.ticked_at ? "never" : isOld() ? clock(status.ticked_at) : `${span(status.now - status.ticked_at)} ago`],
    ]));
    redraw(parts.headroom, headroom());
    redraw(parts.unknown, counted("") ? [h("p", { class: "quiet" }, "No node is known: the cluster was not read since this server started.")] : []);
    redraw(parts.picked, picked());
    redraw(parts.operation, card(isOld() ? "In progress when last read" : "In progress", ...operations()));
    redraw(parts.waiting, card(isOld("cluster") ? "Pending pods when last read" : "Pending pods", ...status.waiting.length
      ? [h("ul", {}, status.waiting.slice(0, SHOWN).map((name) => h("li", {}, h("a", { href: `#/why/?pod=${encodeURIComponent(name)}`, "data-key": `pod-${name}` }, name)))),
        status.waiting.length > SHOWN ? h("p", { class: "quiet" }, `and ${status.waiting.length - SHOWN} more`) : null]
      : [h("p", { class: "quiet" }, counted(isOld("cluster") ? "No pod was pending." : "No pod is pending."))]));
    redraw(parts.brakes, brakes());
  }

  // The same decision is not logged again: an old one that did nothing is still the newest.
  function stands() {
    return !isOld() && kindOf(status.last_decision) === "nothing" && status.ticked_at > status.last_decision.at;
  }

  // What the page cannot ask any more is told as of when it last could.
  function headline() {
    const says = status.headline || sentence(status.says);
    return isOld() ? `As of ${clock(status.now)}, ${lower(says)}` : says;
  }

  function headroom() {
    if (!status.headroom.length) return [];
    return [h("h2", {}, "Headroom"), h("ul", { class: "steps" }, status.headroom.map((each) => h("li", { class: each.missing ? "warn" : "" },
      `${each.says}: ${each.wanted ? `room for ${each.there} of ${each.wanted}` : "not now"}${each.missing ? `, ${each.missing} missing` : ""}`)))];
  }

  function picked() {
    const node = nodes.nodes.find((each) => each.name === tiles.picked);
    if (!node) return [h("p", { class: "quiet" }, "Choose a node to see what is known of it.")];
    const idle = node.idle_since ? `${span(status.now - node.idle_since)}` : "it has pods";
    return [h("h3", {}, node.name), stats([
      ["state", node.state, node.state === "ready" ? "good" : "warn"], ["type", node.instance_type], ["zone", node.zone], ["pods", node.pods],
      ["CPU requested", share(node.cpu_requested)], ["memory requested", share(node.memory_requested)],
      ["CPU used", used(node, node.cpu_used), "", "metrics"], ["memory used", used(node, node.memory_used), "", "metrics"],
      ["age", span(status.now - node.created_at)], ["empty for", idle],
      ["price an hour", money(node.price_per_hour, node.currency)],
    ]), node.kept_because ? h("p", {}, `Not removed${decidedAt(node, status.now)}: ${node.kept_because}.`) : null,
    h("p", {}, h("a", { href: `#/why/?node=${encodeURIComponent(node.name)}` }, "Why is it still here?"))];
  }

  function used(node, value) {
    if (value === null || value === undefined) return "unknown";
    const ago = sampledAgo(node, status.now);
    return ago ? `${share(value)} (${ago})` : share(value);
  }

  function inProgress() {
    return [status.launching, status.removing, ...joined(status.spots), status.set_aside].filter(Boolean);
  }

  function operations() {
    const all = inProgress();
    if (!all.length) return [h("p", { class: "quiet" }, isOld() ? "Nothing was in progress." : "Nothing is in progress.")];
    return all.map((each) => timeline(each, status.now, each === status.set_aside));
  }

  function brakes() {
    const paused = status.brakes.find((brake) => brake.name === "pause")?.on;
    const lines = status.brakes.map((brake) => h("li", { class: brake.on ? "warn" : "" },
      h("span", { class: "mark", "aria-hidden": "true" }, brake.on ? "■" : "–"), `${brake.name}: ${brake.says}`));
    const lease = h("li", {}, h("span", { class: "mark", "aria-hidden": "true" }, "–"), `lease: ${status.lease_says}`);
    const button = h("button", { type: "button", class: paused ? "" : "danger", "data-key": "pause", onclick: () => turn(!paused) },
      paused ? "Allow removals again" : "Pause all removals");
    return card(isOld() ? "Brakes when last read" : "Brakes", h("ul", { class: "steps" }, lines, lease), h("p", {}, button));
  }

  async function turn(on) {
    try {
      await ask("/api/v1/pause", on ? { method: "PUT", body: { reason: "from the page" } } : { method: "DELETE" });
      await refresh();
    } catch (error) { say(`${on ? "Pausing" : "Resuming"} was refused: ${error.message}`); }
  }

  return {
    async refresh(fresh) {
      nodes = await ask("/api/v1/nodes");
      status = fresh;
      if (status.demo) await faults.update(status.now);
      draw();
      drawn();
      await history();
    },
  };
}
