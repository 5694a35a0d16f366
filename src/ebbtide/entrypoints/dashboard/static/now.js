// Now: nodes, what waits, what the last tick said, what is in progress, and the brakes.

import { ask } from "./api.js";
import { card, stats, h, redraw, source } from "./dom.js";
import { faults } from "./faults.js";
import { Tiles, legend } from "./tiles.js";
import { clock, money, sentence, share, span } from "./words.js";

const SHOWN = 8;

// The clock of a launch runs from the launch until the node is ready, and is not set again in between.
function lasting(step, time) {
  return step.kind === "launch" && ["JOINED", "READY"].includes(step.state) ? `, launched ${time} ago` : ` for ${time}`;
}

export function now(main, { say, refresh }) {
  let status = null;
  let nodes = null;
  let offered = false;
  const tiles = new Tiles((name) => { tiles.picked = tiles.picked === name ? "" : name; draw(); });
  const parts = { says: h("div"), numbers: h("div"), headroom: h("div"), picked: h("div", { "aria-live": "polite" }), operation: h("div"), waiting: h("div"), brakes: h("div"), demo: h("div") };
  main.append(
    h("h1", {}, "Now"),
    parts.demo,
    h("div", { class: "desk" },
      h("div", {}, parts.says,
        card("Cluster", parts.numbers, parts.headroom, source("/api/v1/status")),
        card("Nodes", tiles.element, legend(), parts.picked, source("/api/v1/nodes"))),
      h("div", {}, parts.operation, parts.waiting, parts.brakes)),
  );

  function draw() {
    tiles.update(nodes.nodes.filter((node) => node.worker), status.now);
    redraw(parts.says, card("The last tick", h("p", { class: "says" }, sentence(status.says)),
      h("p", { class: "quiet" }, status.ticked_at ? `${clock(status.ticked_at)}` : "", status.last_decision
        ? [" · ", h("a", { href: `#/why/${encodeURIComponent(status.last_decision.id)}` },
          `the decision of ${clock(status.last_decision.at)} in full`)] : ""),
      status.problems.map((problem) => h("p", { class: "bad" }, problem)),
      status.last_alarm && status.now - status.last_alarm.at < 3600
        ? h("p", { class: "warn" }, `Alarm at ${clock(status.last_alarm.at)}: ${status.last_alarm.says}`) : null));
    redraw(parts.numbers, stats([
      ["workers", `${status.workers} of ${status.min_workers} to ${status.max_workers}`],
      ["pods", status.pods], ["waiting", status.waiting.length, status.waiting.length ? "warn" : ""],
      ["CPU", share(status.cpu)],
      ["cost an hour", money(status.cost_per_hour, status.currency), status.unpriced ? "warn" : ""],
      ["last tick", status.ticked_at ? `${span(status.now - status.ticked_at)} ago` : "never"],
    ]));
    redraw(parts.headroom, headroom());
    redraw(parts.picked, picked());
    redraw(parts.operation, card("In progress", ...operations()));
    redraw(parts.waiting, card("Pending pods", ...status.waiting.length
      ? [h("ul", {}, status.waiting.slice(0, SHOWN).map((name) => h("li", {}, name))),
        status.waiting.length > SHOWN ? h("p", { class: "quiet" }, `and ${status.waiting.length - SHOWN} more`) : null]
      : [h("p", { class: "quiet" }, "No pod is pending.")]));
    redraw(parts.brakes, brakes());
  }

  function headroom() {
    if (!status.headroom.length) return [];
    return [h("h3", {}, "Headroom"), h("ul", { class: "steps" }, status.headroom.map((each) => h("li", { class: each.missing ? "warn" : "" },
      `${each.says}: ${each.wanted ? `room for ${each.there} of ${each.wanted}` : "not now"}${each.missing ? `, ${each.missing} missing` : ""}`)))];
  }

  function picked() {
    const node = nodes.nodes.find((each) => each.name === tiles.picked);
    if (!node) return [h("p", { class: "quiet" }, "Choose a node to see what is known of it.")];
    const idle = node.idle_since ? `${span(status.now - node.idle_since)}` : "it has pods";
    return [h("h3", {}, node.name), stats([
      ["state", node.state, node.state === "ready" ? "good" : "warn"], ["type", node.instance_type], ["zone", node.zone], ["pods", node.pods],
      ["CPU asked for", share(node.cpu_requested)], ["memory asked for", share(node.memory_requested)],
      ["age", span(status.now - node.created_at)], ["empty for", idle],
      ["price an hour", money(node.price_per_hour, node.currency)],
    ]), node.kept_because ? h("p", {}, `Not removed: ${node.kept_because}.`) : null,
    h("p", {}, h("a", { href: `#/why/?node=${encodeURIComponent(node.name)}` }, "Its whole life"))];
  }

  function operations() {
    const all = [status.operation, ...status.spots, status.set_aside].filter(Boolean);
    if (!all.length) return [h("p", { class: "quiet" }, "Nothing is in progress.")];
    return all.map((each) => h("div", {}, h("h3", {}, each.kind), h("p", {}, each.reason),
      each.abort_reason ? h("p", { class: "bad" }, `Aborting: ${each.abort_reason}`) : null,
      each === status.set_aside ? h("p", { class: "bad" }, "Set aside: it waits for `ebbtide resume`.") : null,
      h("p", { class: "quiet" }, `${each.id}, begun ${span(status.now - each.started_at)} ago`),
      h("ul", { class: "steps" }, each.steps.map((step) => h("li", {},
        h("strong", {}, step.name), ` ${step.state.toLowerCase()}`,
        step.since ? lasting(step, span(status.now - step.since)) : "", step.reason ? h("span", { class: "quiet" }, `: ${step.reason}`) : "")))));
  }

  function brakes() {
    const paused = status.brakes.find((brake) => brake.name === "pause")?.on;
    const lines = status.brakes.map((brake) => h("li", { class: brake.on ? "warn" : "" },
      h("span", { class: "mark", "aria-hidden": "true" }, brake.on ? "■" : "□"), `${brake.name}: ${brake.says}`));
    const lease = h("li", {}, h("span", { class: "mark", "aria-hidden": "true" }, "□"), `lease: ${status.lease_holder ? `held by ${status.lease_holder}` : "free"}`);
    const button = h("button", { type: "button", class: paused ? "" : "danger", "data-key": "pause", onclick: () => turn(!paused) },
      paused ? "Allow removals again" : "Pause all removals");
    return card("Brakes", h("ul", { class: "steps" }, lines, lease), h("p", {}, button));
  }

  async function turn(on) {
    try {
      await ask("/api/v1/pause", on ? { method: "PUT", body: { reason: "from the page" } } : { method: "DELETE" });
      await refresh();
    } catch (error) { say(`${on ? "Pausing" : "Resuming"} was refused: ${error.message}`); }
  }

  return {
    async refresh() {
      [status, nodes] = await Promise.all([ask("/api/v1/status"), ask("/api/v1/nodes")]);
      if (status.demo && !offered) {
        offered = true;
        await faults(parts.demo, say);
      }
      draw();
    },
  };
}
