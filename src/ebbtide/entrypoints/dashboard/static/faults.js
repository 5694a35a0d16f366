// In the demo alone: buttons that break something, and a panel that says what is being survived and how far it is.

import { ask } from "./api.js";
import { card, h, redraw } from "./dom.js";
import { icon } from "./icons.js";
import { clock, lower, span } from "./words.js";

const PATH = "/api/v1/demo";

export class Faults {
  constructor(say, refresh) {
    this.say = say;
    this.refresh = refresh;
    this.offered = null;
    this.buttons = h("div");
    this.panel = h("div", { role: "status" });
  }

  async update(now) {
    const offered = await ask(PATH);
    if (!this.offered) this.offer(offered);
    this.offered = offered;
    this.pace.textContent = offered.situation && !offered.situation.ended_at
      ? `Until this is over, time passes ${offered.speed} times as fast as the clock.` : `Time passes ${offered.speed} times as fast as the clock.`;
    for (const [id, button] of this.byId) button.setAttribute("aria-pressed", String(!offered.situation?.ended_at && offered.situation?.fault_id === id));
    if (offered.situation) this.show(offered.situation, now);
  }

  offer(offered) {
    this.pace = h("span");
    this.byId = new Map(offered.faults.map((fault) => [fault.id, h("button", { type: "button", "data-asks": "", title: fault.says, "aria-pressed": "false", onclick: () => this.strike(fault) }, fault.name)]));
    this.buttons.append(h("section", { class: "card row demo", "aria-labelledby": "demo-title" },
      h("h2", { id: "demo-title" }, "Demo: break something"), [...this.byId.values()],
      h("p", { class: "quiet" }, "A simulated cluster; nothing outside of it is touched. ", this.pace)));
  }

  async strike(fault) {
    try {
      await ask(`${PATH}/faults/${encodeURIComponent(fault.id)}`, { method: "POST", body: {} });
      await this.refresh();
    } catch (error) { this.say(`The fault was not made: ${error.message}`); }
  }

  show(situation, now) {
    const over = situation.ended_at !== null;
    const open = situation.steps.some((step) => step.at === null);
    const at = situation.steps.findIndex((step) => step.at === null);
    const state = !over ? `for ${span(now - situation.began_at)}` : open ? "not finished within an hour" : `survived after ${span(situation.ended_at - situation.began_at)}`;
    const steps = situation.steps.map((step, number) => h("li", { class: step.at === null ? (number === at && !over ? "here" : "quiet") : "past" },
      icon(step.at === null ? "wait" : "done"), h("div", {}, step.at === null ? `${number === at ? "Next" : "Then"}: ${lower(step.says)}` : step.says), h("time", { class: "quiet" }, step.at === null ? "" : clock(step.at))));
    const panel = card(`${over && !open ? "Survived" : "Surviving"}: ${situation.name}`, h("p", { class: `pill ${over && !open ? "good" : "warn"}` }, state),
      h("p", {}, situation.explains), h("ol", { class: "survived" }, steps));
    panel.classList.add("demo", "situation");
    redraw(this.panel, [panel]);
  }
}
