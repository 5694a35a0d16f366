// In the demo alone: buttons that break something, to see how it is answered.

import { ask } from "./api.js";
import { card, h } from "./dom.js";

export async function faults(parent, say) {
  const offered = await ask("/api/v1/demo");
  const said = h("p", { class: "quiet", role: "status" }, offered.says);
  const buttons = offered.faults.map((fault) => h("button", { type: "button", title: fault.says, onclick: () => strike(fault) }, fault.name));
  parent.append(h("section", { class: "card row demo", "aria-labelledby": "demo-title" },
    h("h2", { id: "demo-title" }, "Demo: break something"), buttons, said));

  async function strike(fault) {
    try {
      const answer = await ask(`/api/v1/demo/faults/${encodeURIComponent(fault.id)}`, { method: "POST", body: {} });
      said.textContent = answer.says;
    } catch (error) { say(`The fault was not made: ${error.message}`); }
  }
}
