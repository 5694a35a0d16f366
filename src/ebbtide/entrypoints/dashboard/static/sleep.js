// Sleep: policies, how long until each may sleep, waking them, and keeping them up.

import { NO_POLICIES, ask, askScaling } from "./api.js";
import { card, h, redraw, source, table } from "./dom.js";
import { opener } from "./opening.js";
import { moment, span } from "./words.js";

export function sleep(main, { say, refresh }) {
  const list = h("div");
  const waking = new Set();
  const opening = opener(refresh);
  let demo = null;
  main.append(h("h1", {}, "Sleep"), list);

  async function act(what, call) {
    try { await call(); say(""); await refresh(); } catch (error) { say(`${what} was refused: ${error.message}`); }
  }

  async function wake(policy) {
    waking.add(policy.id);
    await refresh();
    await act(`Waking ${policy.name}`, () => ask(`/api/v1/scaling/policies/${policy.id}/wake`, { method: "POST", body: { reason: "manual" } }));
    waking.delete(policy.id);
  }

  function until(state, now) {
    if (state.phase === "zero") return `asleep for ${span(now - state.scaled_to_zero_at)}${state.eta ? `; a wake takes ${state.eta.says}` : ""}`;
    if (state.phase === "waking" && state.eta) return state.eta.late ? `waking: ${state.eta.says}` : `waking: ready in ${state.eta.says}`;
    if (!state.zero_at) return state.why_awake || "stays up";
    return state.zero_at > now ? `sleeps in ${span(state.zero_at - now)}` : "sleeps at the next look";
  }

  function one(policy, now) {
    const state = policy.state;
    const hours = h("input", { type: "number", min: "1", max: "168", value: "3", id: `hours-${policy.id}`, "data-key": `hours-${policy.id}` });
    const past = state.wakes.slice(-5).reverse();
    return card(policy.name,
      h("p", { class: "row" }, h("span", { class: `pill ${state.phase === "zero" ? "" : state.phase === "active" ? "good" : "warn"}` }, state.phase), h("span", {}, policy.target_says),
        state.left_alone ? h("span", { class: "warn" }, `left alone: ${state.left_alone}`) : null),
      h("p", {}, `Last activity ${moment(state.last_activity_at)}; ${until(state, now)}.`, state.keep_up_until > now ? ` Kept up until ${moment(state.keep_up_until)}.` : ""),
      h("p", { class: "row" },
        h("button", { type: "button", "data-key": `wake-${policy.id}`, disabled: waking.has(policy.id) || !["zero", "falling"].includes(state.phase), "aria-label": `Wake ${policy.name}`, onclick: () => wake(policy) }, waking.has(policy.id) ? "Waking" : "Wake"),
        h("label", { for: `hours-${policy.id}` }, "Keep up for"), hours, "hours",
        h("button", { type: "button", "data-key": `keep-${policy.id}`, "aria-label": `Keep ${policy.name} up`, onclick: () => act("Keeping it up", () => ask(`/api/v1/scaling/policies/${policy.id}/keep-up`, { method: "POST", body: { seconds: Math.round(Number(hours.value) * 3600) } })) }, "Keep up")),
      demo ? opening(policy) : null,
      past.length ? h("details", { "data-key": `wakes-${policy.id}` }, h("summary", {}, `Last wakes (expected: ${Math.round(state.estimated_ready_seconds)} s)`),
        table(`Wakes of ${policy.name}`, [["when"], ["reason"], ["seconds", "number"], ["for a node", "number"]],
          past.map((each) => [moment(each.at), each.reason, each.seconds.toFixed(1), each.node_seconds.toFixed(1)]))) : null,
      source(`/api/v1/scaling/policies/${policy.id}`));
  }

  return {
    async refresh() {
      demo ??= (await ask("/api/v1/status")).demo;
      const found = await askScaling("/api/v1/scaling/policies?limit=200");
      if (!found) {
        redraw(list, [h("p", { class: "quiet" }, NO_POLICIES)]);
        return;
      }
      redraw(list, found.policies.length ? [h("div", { class: "grid" }, found.policies.map((policy) => one(policy, found.now))), source("/api/v1/scaling/policies")]
        : [h("p", { class: "quiet" }, "There is no policy yet. `ebbtide policy apply -f policy.yaml` makes one."), source("/api/v1/scaling/policies")]);
    },
  };
}
