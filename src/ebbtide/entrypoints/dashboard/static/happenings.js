// Entries of the log as people say them: an icon, a group to filter by, a title, and why. Where an older version
// logged no data, its own sentence is shown.

import { by, clock, plural, span } from "./words.js";

export const GROUPS = [["", "All"], ["nodes", "Nodes"], ["spot", "Spot"], ["sleep", "Sleep"], ["alarm", "Alarms"], ["person", "People"]];
export const KINDS = ["operation.begun", "operation.closed", "spot.event", "alarm", "switch", "wake", "idle"];
const LISTED = 2;
// The title names the nodes.
const NAMED = /^(?:remove|consolidation: (?:empty|remove)) [^:;]*?(?:: |, (?=empty and idle)| (?=by \d))/;

export function happening(entry) {
  const told = BY_KIND[entry.kind]?.(entry.data ?? {}, entry) ?? {};
  const tone = told.tone ?? "";
  return { id: entry.id, at: entry.at, group: told.group ?? "nodes", icon: told.icon ?? "done", tone, title: told.title ?? capital(entry.says), why: told.why ?? "" };
}

const BY_KIND = {
  "operation.begun": (data) => begun(data),
  "operation.closed": (data, entry) => closed(data, entry),
  "spot.event": (data) => ({ group: "spot", icon: "spot", tone: "warn", title: noticed(data) }),
  alarm: (data) => (data.alarm === "source-back" ? { group: "alarm", icon: "done", tone: "good" } : { group: "alarm", icon: "alarm", tone: "bad" }),
  switch: (data) => ({ group: "person", icon: "person", tone: data.tried ? "" : "warn" }),
  wake: (data) => ({ group: "sleep", icon: "wake", title: data.policy && (data.seconds === undefined || data.seconds === null
    ? `${data.policy} is waking up` : `${data.policy} is awake after ${span(data.seconds)}`), why: data.seconds === undefined && data.wake_reason ? `Woken by ${by(data.wake_reason)}` : "" }),
  idle: (data) => ({ group: "sleep", icon: "sleep", title: data.policy && `${data.policy}: ${data.detail}` }),
};

function begun(data) {
  const why = capital((data.reason ?? "").replace(NAMED, ""));
  switch (data.operation) {
    case "scale-up": return { icon: "add", title: `Adding ${plural(data.launches, "node")}`, why };
    case "scale-down": return { icon: "remove", title: `Removing ${listed(data.nodes)}`, why };
    case "consolidation": return { icon: "pack", title: `Consolidating: moving ${plural(data.moves, "pod")} off ${listed(data.nodes)}`, why };
    case "interruption": case "rebalance": return { group: "spot", icon: "spot", tone: "warn", title: `Answering the spot notice for ${listed(data.nodes)}`, why };
    default: return {};
  }
}

// Only of what is answered; what was not ours or known already is told by its own sentence.
function noticed(data) {
  const node = data.node_name || data.instance_id;
  if (!["taken-in", "upgraded"].includes(data.answer)) return undefined;
  return data.notice === "interruption" ? `The cloud takes spot node ${node} back at ${clock(data.deadline)}` : `The cloud may soon take spot node ${node} back`;
}

function closed(data, entry) {
  if (!data.operation) return {};
  const took = ` after ${span(entry.at - data.started_at)}`;
  const spot = ["interruption", "rebalance"].includes(data.operation);
  const shape = { group: spot ? "spot" : "nodes", icon: spot ? "spot" : "done", tone: "good" };
  if (spot && !data.succeeded && data.kept?.length) return { ...shape, tone: "warn", title: `Spot node ${data.kept[0].name} stays${took}`, why: capital(data.kept[0].reason) };
  if (!data.succeeded) return { ...shape, icon: spot ? "spot" : "alarm", tone: "warn" };
  if (spot && data.removed?.length) {
    const gone = data.operation === "interruption" ? "taken by the cloud" : "emptied before the cloud took it";
    // When the replacement was ready is not known here: it was by the end, which the machine that is taken decides.
    const rest = data.ready?.length ? `, replaced by ${listed(data.ready)} within ${span(entry.at - data.started_at)}` : took;
    return { ...shape, title: `Spot node ${listed(data.removed)} ${gone}${rest}` };
  }
  const done = [
    data.ready?.length ? `${listed(data.ready)} ready` : "", data.removed?.length ? `${listed(data.removed)} removed` : "",
    data.emptied?.length ? `${plural(data.moved, "pod")} moved, ${listed(data.emptied)} empty` : "",
  ].filter(Boolean);
  return done.length ? { ...shape, title: `${done.join(", ")}${took}`, why: (data.kept ?? []).map((kept) => `${kept.name} stays: ${kept.reason}`).join("; ") } : shape;
}

function listed(names) {
  const all = names ?? [];
  return all.length > LISTED ? `${all.slice(0, LISTED).join(", ")} and ${all.length - LISTED} more` : all.join(", ") || "no node";
}

export function capital(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}
