// "Why is this node still here?" and "Why is this pod pending?", each answered in a sentence first.

import { ask } from "./api.js";
import { card, h, source, table } from "./dom.js";
import { capital, happening } from "./happenings.js";
import { isOld, sampledAgo } from "./health.js";
import { decidedAt, lower, moment, plainly, plural, share, span } from "./words.js";

const STATES = ["launching", "launched", "joined", "ready", "planned", "draining", "drained", "terminating", "gone", "released"];
const SHOWN_AS = { launching: "joining", launched: "joining", joined: "joining", planned: "chosen" };

export async function nodeAnswer(name, now) {
  const path = `/api/v1/log?limit=200&subject=${encodeURIComponent(name)}`;
  const [found, nodes, status] = await Promise.all([ask(path), ask("/api/v1/nodes"), ask("/api/v1/status")]);
  const node = nodes.nodes.find((each) => each.name === name);
  const lines = await life(name, found.entries, node);
  return [card(node ? `Why is ${name} still here?` : `What became of ${name}?`, h("p", { class: "says" }, asRead(answer(node, now, status))),
    node ? h("p", { class: "quiet" }, `${node.instance_type} in ${node.zone || "no zone"}, ${span(now - node.created_at)} old, ${plural(node.pods, "pod")}, `
      + `${share(node.cpu_requested)} of its CPU and ${share(node.memory_requested)} of its memory requested, DaemonSets included`, used(node, now), ".") : null,
    h("h3", {}, `The life of ${name}`), strip(lines, now),
    lines.length ? h("ol", {}, lines.map((entry) => h("li", {}, h("time", { class: "quiet" }, `${moment(entry.at)} `), told(entry))))
      : h("p", { class: "quiet" }, "The log has nothing about it: no operation has touched it."), source(path))];
}

// What cannot be read any more is told as what was read last.
function asRead(says) {
  return isOld("cluster") ? `When last read: ${lower(says)}` : says;
}

// Before a node has joined, and in the notices of the cloud, its instance stands for it. The log of a node that is
// gone names the instance, the last one of this name: names are used again.
async function life(name, all, node) {
  const instance = node?.instance_id || all.find((entry) => entry.data.instance_id)?.data.instance_id;
  const isOther = ({ data }) => data.instance_id && data.instance_id !== instance;
  const before = all.find(isOther)?.at ?? -1;
  const entries = all.filter((entry) => !isOther(entry) && (entry.data.instance_id || entry.at > before));
  const more = instance && instance !== name
    ? (await ask(`/api/v1/log?limit=200&subject=${encodeURIComponent(instance)}`)).entries : [];
  return [...entries, ...more].sort((one, other) => one.at - other.at || (one.id < other.id ? -1 : 1));
}

function told(entry) {
  if (entry.kind === "spot.event") return happening(entry).title;
  const { part, before, after, name } = entry.data;
  return part === "removal" && before === "new" && after === "PLANNED" ? `${name} is chosen to be removed` : plainly(entry.says);
}

function used(node, now) {
  if (node.cpu_used === null) return null;
  const memory = node.memory_used === null ? "" : ` and ${share(node.memory_used)} of its memory`;
  return h("span", { "data-from": "metrics" }, `; ${share(node.cpu_used)} of its CPU${memory} really used ${sampledAgo(node, now)}`.trimEnd());
}

// What is done with it and why, where an operation has it.
function operationOn(name, status) {
  const found = [status.launching, status.removing, ...status.spots, status.set_aside].filter(Boolean).find((each) => each.steps.some((step) => step.kind !== "move" && step.name === name) || each.node === name);
  const held = found?.steps.find((step) => step.name === name && step.reason)?.reason;
  return found ? `. ${capital(found.reason.replace(/^consolidation: /, ""))}${held ? `; ${held}` : ""}` : "";
}

function answer(node, now, status) {
  if (!node) return "It is not in the cluster now.";
  if (!node.worker) return "It is no worker of Ebbtide: Ebbtide never removes it.";
  if (node.state !== "ready") return `It is ${node.state}${operationOn(node.name, status)}.`;
  return node.kept_because ? `It is kept${decidedAt(node, now)}: ${node.kept_because}.` : "The last decision did not look at single nodes: nothing was to be removed.";
}

export async function podAnswer(name, now) {
  const path = `/api/v1/pods/${name.split("/").map(encodeURIComponent).join("/")}`;
  const asked = `Why is ${name} pending?`;
  let pod;
  try { pod = await ask(path); } catch (error) {
    if (error.status !== 404) throw error;
    return [card(asked, h("p", { class: "says" }, `${capital(error.message)}.`))];
  }
  return [card(pod.pending ? asked : `Where is ${name}?`, h("p", { class: "says" }, asRead(`${capital(pod.says)}.`)),
    h("p", { class: "quiet" }, `It requests ${pod.cpu_milli}m CPU and ${pod.memory_mib} MiB of memory, and was created ${span(now - pod.created_at)} ago.`),
    pod.against.length ? table("Nodes that do not take it", [["Nodes", "number"], ["Reason"]], pod.against.map((each) => [each.nodes, each.reason])) : null,
    source(path))];
}

function strip(lines, until) {
  const steps = lines.map((entry) => ({ at: entry.at, state: entry.data.after?.toLowerCase() })).filter((step) => STATES.includes(step.state));
  if (steps.length < 2) return null;
  const bar = h("div", { class: "life", role: "img", "aria-label": steps.map((step) => step.state).join(", then ") });
  steps.forEach((step, at) => {
    const end = steps[at + 1]?.at ?? (step.state === "gone" ? step.at : until);
    const part = h("span", { "data-state": SHOWN_AS[step.state] ?? step.state, title: step.state });
    part.style.setProperty("flex-grow", String(Math.max(1, end - step.at)));
    bar.append(part);
  });
  return bar;
}
