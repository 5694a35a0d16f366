// Decisions, newest first, in groups: what was done stands alone; what led to nothing folds into one row with its span,
// and so do notices of the cloud that follow each other.

export const FILTERS = [
  ["", "All"], ["done", "What was done"], ["scale_up", "Scale-up"], ["scale_down", "Scale-down"], ["consolidate", "Consolidation"],
  ["spot", "Spot"], ["cleanup", "Clean-up"], ["nothing", "Nothing new"],
];
const FOLDS = ["nothing", "spot"];
const CLEANUP = ["adopt", "forget", "release"];

export function kindOf(entry) {
  if (entry.kind === "spot.event") return "spot";
  const action = entry.data?.action ?? "nothing";
  return CLEANUP.includes(action) ? "cleanup" : action;
}

export function fits(entry, filter) {
  const kind = kindOf(entry);
  return !filter || (filter === "done" ? kind !== "nothing" : kind === filter);
}

// `since` of a group is its oldest entry, `until` when the next newer decision was made.
export function folded(entries, now) {
  const groups = [];
  let until = now;
  for (const entry of entries) {
    const last = groups.at(-1);
    const kind = kindOf(entry);
    if (FOLDS.includes(kind) && last?.kind === kind) {
      last.entries.push(entry);
      last.since = entry.at;
    } else groups.push({ kind, entries: [entry], since: entry.at, until: kind === "spot" ? entry.at : until });
    until = entry.at;
  }
  return groups;
}
