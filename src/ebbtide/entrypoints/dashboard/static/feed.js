// What happened, newest first, with icons; filtered by buttons.

import { ask } from "./api.js";
import { card, h, redraw, source } from "./dom.js";
import { GROUPS, KINDS, happening } from "./happenings.js";
import { icon } from "./icons.js";
import { moment } from "./words.js";

const PATH = `/api/v1/log?limit=100&${KINDS.map((kind) => `kind=${kind}`).join("&")}`;

export class Feed {
  constructor(say) {
    this.say = say;
    this.events = [];
    this.group = "";
    this.more = "";
    this.list = h("div");
    this.buttons = GROUPS.map(([group, name]) => h("button", { type: "button", class: "chip", "aria-pressed": String(!group), onclick: () => this.choose(group) }, name));
    this.element = card("Events", h("p", { class: "row", role: "group", "aria-label": "Show only" }, this.buttons), this.list, source(PATH));
  }

  choose(group) {
    this.group = group;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(GROUPS[at][0] === group)));
    this.draw();
  }

  async refresh() {
    const found = await ask(PATH);
    if (this.events.length && found.entries[0]?.id === this.events[0].id) return false;
    if (!this.events.length) this.more = found.next_page_token;
    const known = new Set(this.events.map((event) => event.id));
    this.events = [...found.entries.filter((entry) => !known.has(entry.id)).map(happening), ...this.events];
    this.draw();
    return true;
  }

  async older() {
    try {
      const found = await ask(`${PATH}&page_token=${encodeURIComponent(this.more)}`);
      this.events = [...this.events, ...found.entries.map(happening)];
      this.more = found.next_page_token;
      this.draw();
    } catch (error) { this.say(error.message); }
  }

  draw() {
    const shown = this.events.filter((event) => !this.group || event.group === this.group);
    redraw(this.list, [
      h("ol", { class: "feed", tabindex: "0", "aria-label": "Events, newest first" }, shown.map((event) => h("li", { class: event.tone, "data-group": event.group },
        icon(event.icon), h("div", {}, h("strong", {}, event.title), event.why ? h("span", { class: "quiet" }, ` ${event.why}`) : null),
        h("time", { class: "quiet", datetime: new Date(event.at * 1000).toISOString() }, moment(event.at))))),
      shown.length ? null : h("p", { class: "quiet" }, "Nothing of this kind happened."),
      this.more ? h("p", {}, h("button", { type: "button", "data-key": "older-events", onclick: () => this.older() }, "Older events")) : null,
    ]);
  }
}
