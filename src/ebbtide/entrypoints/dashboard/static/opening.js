// In the demo alone: open an app that sleeps. The request is a real one, held by the API until the app is awake.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { span } from "./words.js";

const HELD_SECONDS = 25;

export function opener(refresh) {
  const opened = new Map();

  async function open(policy) {
    const since = performance.now();
    opened.set(policy.id, { since });
    await refresh();
    let says;
    try {
      await ask(`/api/v1/hold/${policy.id}?wait=${HELD_SECONDS}&show=problem`);
      const last = (await ask(`/api/v1/scaling/policies/${policy.id}`)).state.wakes.at(-1);
      const node = last?.node_seconds ? `, ${span(last.node_seconds)} of it for a node` : "";
      says = `The request was held for ${seconds(since)} and then answered. In the cluster's time the wake took ${last ? span(last.seconds) : "an unknown time"}${node}.`;
    } catch (error) { says = `The request was held for ${seconds(since)}: ${error.message}.`; }
    opened.set(policy.id, { says });
    await refresh();
  }

  function seconds(since) { return `${((performance.now() - since) / 1000).toFixed(1)} s`; }

  return (policy) => {
    const known = opened.get(policy.id);
    if (!known && policy.state.phase !== "zero") return null;
    const held = known?.since !== undefined;
    const says = held ? `Held for ${seconds(known.since)}: the app is waking.` : known?.says ?? "";
    return [
      h("button", { type: "button", "data-asks": "", "data-key": `open-${policy.id}`, disabled: held || policy.state.phase !== "zero", "aria-label": `Open the sleeping app ${policy.name}`, onclick: () => open(policy) }, "Open the sleeping app"),
      h("span", { role: "status" }, says)];
  };
}
