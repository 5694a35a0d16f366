// What happened, newest first, with icons; filtered by buttons. A row is made once, and only when somebody has
// scrolled near it: of thousands of events most are never looked at.

import { ask } from "./api.js";
import { card, h, source } from "./dom.js";
import { GROUPS, KINDS, happening } from "./happenings.js";
import { icon } from "./icons.js";
import { dayOf, moment, when } from "./words.js";

const PATH = `/api/v1/log?limit=100&${KINDS.map((kind) => `kind=${kind}`).join("&")}`;
const OLDER = PATH.replace("limit=100", "limit=500");
const STEP = 100;
// A page that is open for weeks begins again.
const MOST = 20000;

export class Feed {
  constructor(say) {
    this.say = say;
    this.events = [];
    this.group = "";
    this.more = "";
    this.newest = null;
    this.now = 0;
    this.fitting = [];
    this.list = h("ol", { class: "feed", tabindex: "0", "aria-label": "Events, newest first", onscroll: () => this.scrolled() });
    this.none = h("p", { class: "quiet", hidden: true }, "Nothing of this kind happened.");
    this.button = h("button", { type: "button", "data-asks": "", hidden: true, onclick: () => this.older() }, "Older events");
    this.buttons = GROUPS.map(([group, name]) => h("button", { type: "button", class: "chip", "aria-pressed": String(!group), onclick: () => this.choose(group) }, name));
    this.element = card("Events", h("p", { class: "row", role: "group", "aria-label": "Show only" }, this.buttons), this.list, this.none, h("p", {}, this.button), source(PATH));
  }

  choose(group) {
    this.group = group;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(GROUPS[at][0] === group)));
    this.draw();
  }

  async refresh(now) {
    // Rows of today leave out the day: when the next one begins, they are written again.
    const turned = dayOf(now) !== dayOf(this.now);
    this.now = now;
    if (turned) this.draw();
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
      this.draw();
    } else {
      const fitting = news.filter((event) => this.fits(event));
      this.events = [...news, ...this.events];
      this.fitting = [...fitting, ...this.fitting];
      this.list.prepend(...fitting.map((event) => row(event, this.now)));
      this.none.hidden = this.fitting.length > 0;
    }
    return true;
  }

  async older() {
    try {
      const found = await ask(`${OLDER}&page_token=${encodeURIComponent(this.more)}`);
      const events = found.entries.map(happening);
      this.events = [...this.events, ...events];
      this.more = found.next_page_token;
      for (const event of events) if (this.fits(event)) this.fitting.push(event);
      this.grow();
    } catch (error) { this.say(error.message); }
  }

  fits(event) { return !this.group || event.group === this.group; }

  draw() {
    this.fitting = this.events.filter((event) => this.fits(event));
    this.list.replaceChildren();
    this.grow();
  }

  // The next rows, as somebody scrolls down to them.
  grow() {
    const drawn = this.list.children.length;
    this.list.append(...this.fitting.slice(drawn, drawn + STEP).map((event) => row(event, this.now)));
    this.none.hidden = this.fitting.length > 0;
    this.button.hidden = !this.more;
  }

  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.list;
    if (scrollTop + 2 * clientHeight > scrollHeight && this.list.children.length < this.fitting.length) this.grow();
  }
}

function row(event, now) {
  return h("li", { class: event.tone, "data-group": event.group }, icon(event.icon),
    h("div", {}, h("strong", {}, event.title), event.why ? h("span", { class: "quiet" }, ` ${event.why}`) : null),
    h("time", { class: "quiet", datetime: new Date(event.at * 1000).toISOString(), title: moment(event.at) }, when(event.at, now)));
}
