// What is known, how old it is, and what Ebbtide does not do meanwhile. Stale is not empty: values stay, greyed.

import { h } from "./dom.js";
import { clock, lower, span } from "./words.js";

const NAMES = { cluster: "The cluster cannot be read", cloud: "The cloud cannot be read", metrics: "The metrics cannot be read", runner: "Ebbtide is not ticking" };
// What of the page is old: nodes and pods come from the cluster also where the cloud cannot be read.
const OF_IT = { metrics: "The CPU shown is", cloud: "Its list of instances is" };
const live = document.getElementById("live");
const trouble = document.getElementById("trouble");
const main = document.getElementById("page");

const state = { connection: "connecting", failure: null, status: null, readAt: 0, message: "" };

// In the demo the cluster has a time of its own: next to it the clock of the browser would say something else.
export function health(change) {
  Object.assign(state, change);
  const lines = troubles();
  const was = trouble.textContent;
  const blocks = [...lines.map(([title, ...rest]) => h("p", {}, h("strong", {}, `${title}. `), rest.filter(Boolean).join(" "))),
    state.message ? h("p", {}, state.message) : null].filter(Boolean);
  if (blocks.map((block) => block.textContent).join("") !== was) trouble.replaceChildren(...blocks);
  trouble.hidden = !blocks.length;
  const stale = scope().join(" ");
  if (main.dataset.stale !== stale) {
    main.dataset.stale = stale;
    for (const each of main.querySelectorAll("[data-present]")) each.dispatchEvent(new Event("stale"));
  }
  hold();
  pill();
}

// Whether one of these cannot be read: what is then said of it is not the present.
export function isOld(...sources) {
  return scope().some((each) => each === "all" || sources.includes(each));
}

// How old a sample of use is, where that must be said: samples are fresh for three minutes, or for as long as they can be read.
const OLD_SECONDS = 300;
export function sampledAgo(node, now) {
  const age = now - node.used_at;
  return age > OLD_SECONDS || (age > 0 && isOld("cluster", "metrics")) ? `${span(age)} ago` : "";
}

// A server that is gone answers no question. Not by `disabled`, which would take the focus away from the button.
function hold() {
  const held = scope().includes("all");
  for (const each of main.querySelectorAll("[data-asks]")) {
    if (held) each.setAttribute("aria-disabled", "true"); else each.removeAttribute("aria-disabled");
  }
}
new MutationObserver(hold).observe(main, { childList: true, subtree: true });
main.addEventListener("click", (event) => {
  if (!event.target.closest("[aria-disabled=true]")) return;
  event.preventDefault();
  event.stopPropagation();
}, true);

function scope() {
  if (state.failure || state.connection === "reconnecting") return ["all"];
  return (state.status?.stale ?? []).map((each) => each.source);
}

function pill() {
  const connected = state.connection === "live";
  const stale = connected && (state.failure || state.status?.stale?.length);
  const text = stale ? "stale" : state.connection;
  if (live.textContent !== text) live.textContent = text;
  live.className = `pill ${connected && !stale ? "good" : "warn"}`;
}

function troubles() {
  const { failure, status, readAt, connection } = state;
  const age = readAt ? `The values shown are ${span((Date.now() - readAt) / 1000)} old${status?.demo ? "" : `, from ${clock(readAt / 1000)}`}.` : "Nothing was read for this page yet.";
  if (failure?.status === 401) return [["A token is needed", failure.message, "Press Token at the top and enter one."]];
  if (failure?.status === 0 || (!failure && connection === "reconnecting")) {
    return [["The server does not answer", age, "Ebbtide runs without this page; whether it runs now is not known here. The page reconnects by itself."]];
  }
  if (failure?.status >= 500) {
    return [["The server cannot read its store", `${capital(failure.message)}.`, age, "Every intent is written to the store first, so Ebbtide starts nothing until it can be read again."]];
  }
  if (failure) return [["The server refused", failure.message]];
  return (status?.stale ?? []).map((each) => [NAMES[each.source] ?? each.source,
    each.source === "runner" ? `${capital(each.says)}.` : each.at
      ? `${OF_IT[each.source] ?? "The values shown are"} ${span(status.now - each.at)} old, from ${clock(each.at)}.` : "Nothing is known of it since this server started.",
    `Meanwhile ${lower(each.meanwhile)}`, each.source === "runner" ? "" : `Reason: ${each.says}.`]);
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
