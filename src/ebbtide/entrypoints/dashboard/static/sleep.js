// Sleep: each policy with its last days as a strip, when it sleeps and wakes next, waking it, and keeping it up.

import { NO_POLICIES, ask, askScaling } from "./api.js";
import { card, h, redraw, source, table } from "./dom.js";
import { opener } from "./opening.js";
import { about, by, moment, plural, span, when } from "./words.js";

const DAYS = 7;
const MOST_HOURS = 168;
const PHASES = { zero: "asleep", falling: "falling asleep", waking: "waking", idle: "idle", active: "active" };
const STRIP_MS = 5000;

// No wake can be estimated that could not start.
const isStuck = (state) => state.eta?.node_first === "never";

export function sleep(main, { say, refresh }) {
  // What a target does is read from the cluster: its last state is greyed while that cannot be read.
  const list = h("div", { "data-from": "cluster" });
  const waking = new Set();
  const opening = opener(refresh);
  let demo = null;
  let unread = "";
  const wrong = new Map();
  let strips = null;
  let readAt = -Infinity;
  main.append(h("h1", {}, "Sleep"), list);

  async function act(what, call) {
    try { await call(); say(""); await refresh(); } catch (error) { say(`${what} was refused: ${error.message}`); }
  }

  async function wake(policy) {
    waking.add(policy.id);
    await refresh();
    await act(`Waking ${policy.name}`, () => ask(`/api/v1/scaling/policies/${policy.id}/wake`, { method: "POST", body: { reason: "manual" } }));
    waking.delete(policy.id);
    await refresh();
  }

  // What is wrong with a field is said at the field, and nothing is sent.
  async function keepUp(policy, field) {
    const hours = Number(field.value);
    const problem = !field.value.trim() || !Number.isFinite(hours) ? "Enter a number of hours." : hours < 1 || hours > MOST_HOURS ? `Enter 1 to ${MOST_HOURS} hours.` : "";
    if (problem) wrong.set(policy.id, problem); else wrong.delete(policy.id);
    if (problem) { await refresh(); document.getElementById(field.id)?.focus(); return; }
    try {
      await ask(`/api/v1/scaling/policies/${policy.id}/keep-up`, { method: "POST", body: { seconds: Math.round(hours * 3600) } });
    } catch (error) { wrong.set(policy.id, error.message); }
    await refresh();
  }

  function until(state, now) {
    if (state.phase === "zero") return `asleep for ${span(now - state.scaled_to_zero_at)}${state.eta ? `; ${isStuck(state) ? state.eta.says : `a wake takes ${state.eta.says}${unread}`}` : ""}`;
    if (state.phase === "waking" && isStuck(state)) return `waking, but ${state.eta.says}`;
    if (state.phase === "waking" && state.eta) return state.eta.late ? `waking: ${state.eta.says}` : `waking: ready in ${state.eta.says}`;
    if (!state.zero_at) return state.why_awake || "stays up";
    return state.zero_at > now ? `sleeps in ${span(state.zero_at - now)}` : "sleeps at the next look";
  }

  function next(policy, now) {
    const change = strips?.policies.find((each) => each.policy_id === policy.id)?.next_change;
    const { wakes, eta, estimated_ready_seconds: seconds, phase } = policy.state;
    // Asleep, the line above says how long a wake takes.
    const takes = (phase === "zero" && eta) || isStuck(policy.state) ? "" : `A wake takes ${about(seconds)}${wakes.length ? `, measured on its last ${plural(wakes.length, "wake")}` : ", not measured yet"}${unread}.`;
    return h("p", { class: "quiet" }, change ? `Next scheduled: ${change.does} at ${moment(change.at, true)}, in ${span(change.at - now)}. ` : "No schedule. ", takes);
  }

  function strip(policy) {
    const found = strips?.policies.find((each) => each.policy_id === policy.id);
    if (!found?.pieces.length) return null;
    const { since, now } = strips;
    const place = (at) => `${(((at - since) / (now - since)) * 100).toFixed(2)}%`;
    const asleep = found.pieces.filter((piece) => piece.state === "asleep").reduce((sum, piece) => sum + piece.until - piece.since, 0);
    const days = [...Array(DAYS).keys()].map((day) => midnight(since, day + 1)).filter((at) => at < now);
    return h("div", { class: "strip" },
      h("div", { class: "track-bar", role: "img", "aria-label": `Last ${DAYS} days: slept ${span(asleep)}, woken ${plural(found.wakes.length, "time")}` },
        found.pieces.map((piece) => h("span", { class: piece.state, style: `left:${place(piece.since)};width:${(((piece.until - piece.since) / (now - since)) * 100).toFixed(3)}%`, title: `${piece.state} ${moment(piece.since)} for ${span(piece.until - piece.since)}` })),
        found.wakes.map((woken) => h("i", { style: `left:${place(woken.at)}`, title: `woken ${moment(woken.at)} by ${by(woken.reason)}` }))),
      h("div", { class: "strip-days", "aria-hidden": "true" }, days.map((at) => h("small", { style: `left:${place(at)}` }, new Date(at * 1000).toLocaleDateString([], { weekday: "short" })))),
      h("p", { class: "quiet" }, `Slept ${span(asleep)} in the last ${DAYS} days. ${who(found.wakes)}`));
  }

  function who(wakes) {
    if (!wakes.length) return "Not woken.";
    const counts = new Map();
    for (const each of wakes) counts.set(each.reason, (counts.get(each.reason) ?? 0) + 1);
    return `Woken ${[...counts].map(([reason, count]) => `${plural(count, "time")} by ${by(reason)}`).join(", ")}.`;
  }

  function one(policy, now) {
    const state = policy.state;
    const problem = wrong.get(policy.id);
    const hours = h("input", { type: "number", min: "1", max: String(MOST_HOURS), value: "3", id: `hours-${policy.id}`, "data-key": `hours-${policy.id}`, "aria-invalid": problem ? "true" : null, "aria-describedby": problem ? `wrong-${policy.id}` : null });
    const toWake = [waking.has(policy.id) || ["zero", "falling"].includes(state.phase)
      ? h("button", { type: "button", "data-asks": "", "data-key": `wake-${policy.id}`, disabled: waking.has(policy.id), "aria-label": `Wake ${policy.name}`, onclick: () => wake(policy) }, waking.has(policy.id) ? "Waking" : "Wake") : null,
      demo ? opening(policy) : null].flat().filter(Boolean);
    const past = state.wakes.slice(-5).reverse();
    return card(policy.name,
      h("p", { class: "row" }, h("span", { class: `pill ${state.phase === "zero" ? "" : state.phase === "active" ? "good" : "warn"}` }, PHASES[state.phase] ?? state.phase), h("span", {}, policy.target_says),
        state.left_alone ? h("span", { class: "warn" }, `left alone: ${state.left_alone}`) : null),
      strip(policy),
      h("p", { class: "state" }, `Last activity ${state.last_activity_at ? when(state.last_activity_at, now, true) : "never"}; ${until(state, now)}.`, state.keep_up_until > now ? ` Kept up until ${when(state.keep_up_until, now, true)}.` : ""),
      next(policy, now),
      toWake.length ? h("p", { class: "row" }, toWake) : null,
      h("p", { class: "row" },
        h("label", { for: `hours-${policy.id}` }, "Keep up for"), hours, "hours",
        h("button", { type: "button", "data-asks": "", "data-key": `keep-${policy.id}`, "aria-label": `Keep ${policy.name} up`, onclick: () => keepUp(policy, hours) }, "Keep up")),
      problem ? h("p", { class: "bad", id: `wrong-${policy.id}`, role: "alert" }, problem) : null,
      past.length ? h("details", { "data-key": `wakes-${policy.id}` }, h("summary", {}, `Last ${plural(past.length, "wake")}`),
        table(`Wakes of ${policy.name}`, [["when"], ["woken by"], ["took", "number"], ["for a node", "number"]],
          past.map((each) => [moment(each.at, true), by(each.reason), span(each.seconds), span(each.node_seconds)]))) : null,
      source(`/api/v1/scaling/policies/${policy.id}`, "from the API"));
  }

  return {
    async refresh(status) {
      // A wake may need a node, and none is added meanwhile.
      const stale = ["cluster", "cloud"].filter((name) => status.stale.some((each) => each.source === name));
      unread = stale.length ? `, once the ${stale.join(" and the ")} can be read again` : "";
      demo ??= (await ask("/api/v1/status")).demo;
      const found = await askScaling("/api/v1/scaling/policies?limit=200");
      if (!found) {
        redraw(list, [h("p", { class: "quiet" }, NO_POLICIES)]);
        return;
      }
      if (found.policies.length && performance.now() - readAt > STRIP_MS) {
        strips = await ask(`/api/v1/scaling/strips?days=${DAYS}`);
        readAt = performance.now();
      }
      redraw(list, found.policies.length ? [h("ul", { class: "legend" }, ["awake", "idle", "asleep", "waking"].map((name) => h("li", { class: name }, name)), h("li", { class: "woken" }, "woken")),
        h("div", { class: "grid" }, found.policies.map((policy) => one(policy, found.now))), source("/api/v1/scaling/policies")]
        : [h("p", { class: "quiet" }, "There is no policy yet. `ebbtide policy apply -f policy.yaml` makes one."), source("/api/v1/scaling/policies")]);
    },
  };
}

// Where the day begins in which so many days after `since` lie, by the clock of the reader.
function midnight(since, days) {
  const day = new Date(since * 1000);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days).getTime() / 1000;
}
