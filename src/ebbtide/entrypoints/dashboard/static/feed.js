// What happened, newest first, with icons; filtered by buttons. A row is made once: with thousands of events,
// what comes is put before the others, and what is asked for after them, a slice for each frame.

import { ask } from "./api.js";
import { card, h, source } from "./dom.js";
import { GROUPS, KINDS, happening } from "./happenings.js";
import { icon } from "./icons.js";
import { moment } from "./words.js";

const PATH = `/api/v1/log?limit=100&${KINDS.map((kind) => `kind=${kind}`).join("&")}`;
const OLDER = PATH.replace("limit=100", "limit=500");
const SLICE_MS = 6;
// A page that is open for weeks begins again.
const MOST = 20000;

export class Feed {
  constructor(say) {
    this.say = say;
    this.events = [];
    this.group = "";
    this.more = "";
    this.newest = null;
    this.todo = [];
    this.working = false;
    this.list = h("ol", { class: "feed", tabindex: "0", "aria-label": "Events, newest first" });
    this.none = h("p", { class: "quiet", hidden: true }, "Nothing of this kind happened.");
    this.button = h("button", { type: "button", hidden: true, onclick: () => this.older() }, "Older events");
    this.buttons = GROUPS.map(([group, name]) => h("button", { type: "button", class: "chip", "aria-pressed": String(!group), onclick: () => this.choose(group) }, name));
    this.element = card("Events", h("p", { class: "row", role: "group", "aria-label": "Show only" }, this.buttons), this.list, this.none, h("p", {}, this.button), source(PATH));
  }

  choose(group) {
    this.group = group;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(GROUPS[at][0] === group)));
    this.start(this.events);
  }

  async refresh() {
    const found = await ask(PATH);
    const newest = found.entries[0]?.id ?? "";
    if (newest === this.newest) return false;
    this.newest = newest;
    const known = new Set(this.events.map((event) => event.id));
    const news = found.entries.filter((entry) => !known.has(entry.id)).map(happening);
    // Where nothing of the page is known, more happened than it holds: what was shown before does not join on.
    if (news.length === found.entries.length || this.events.length > MOST) {
      this.events = found.entries.map(happening);
      this.more = found.next_page_token;
      this.start(this.events);
    } else {
      this.events = [...news, ...this.events];
      this.list.prepend(...news.filter((event) => this.fits(event)).map(row));
      this.tell();
    }
    return true;
  }

  async older() {
    try {
      const found = await ask(`${OLDER}&page_token=${encodeURIComponent(this.more)}`);
      const events = found.entries.map(happening);
      this.events = [...this.events, ...events];
      this.more = found.next_page_token;
      this.add(events);
    } catch (error) { this.say(error.message); }
  }

  fits(event) { return !this.group || event.group === this.group; }

  start(events) {
    this.list.replaceChildren();
    this.todo = [];
    this.add(events);
  }

  add(events) {
    for (const event of events) if (this.fits(event)) this.todo.push(event);
    if (!this.working) this.work();
    this.tell();
  }

  work() {
    const end = performance.now() + SLICE_MS;
    let at = 0;
    while (at < this.todo.length && performance.now() < end) this.list.append(row(this.todo[at++]));
    this.todo.splice(0, at);
    this.working = this.todo.length > 0;
    if (this.working) requestAnimationFrame(() => this.work());
  }

  tell() {
    this.none.hidden = this.list.children.length + this.todo.length > 0;
    this.button.hidden = !this.more;
  }
}

function row(event) {
  return h("li", { class: event.tone, "data-group": event.group }, icon(event.icon),
    h("div", {}, h("strong", {}, event.title), event.why ? h("span", { class: "quiet" }, ` ${event.why}`) : null),
    h("time", { class: "quiet", datetime: new Date(event.at * 1000).toISOString() }, moment(event.at)));
}
