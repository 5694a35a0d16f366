// What other settings would have cost: the backtest that was published last, as a chart of cost and pending time and as
// a table. The nearer to the lower left the better; what no other settings beat is joined by a line.

import { card, h, s, source, stats, table } from "./dom.js";
import { capital } from "./happenings.js";
import { decimals, money, moment, plural, span } from "./words.js";

const TALL = 240;
const LEFT = 64;
const RIGHT = 24;
const TOP = 26;
const BOTTOM = 34;
const COMMAND = "ebbtide backtest month.ebb --profile balanced --publish ebbtide.yaml";

export function whatIf(found) {
  if (!found) {
    return card("What if", h("p", { class: "quiet" }, "No backtest was published yet. It plays your own history with other settings:"),
      h("p", {}, h("code", {}, COMMAND)), source("/api/v1/backtest"));
  }
  const { currency } = found;
  const tried = found.tried.map((one) => ({ ...one, cost: Number(one.cost_a_month), saves: one.saves_a_month === null ? null : Number(one.saves_a_month), pending: one.pending_seconds_a_day }));
  const named = tried.filter((one) => one.front || one.today).sort((a, b) => a.cost - b.cost);
  named.forEach((one, at) => { one.number = at + 1; });
  const today = tried.find((one) => one.today);
  const digits = { cost: decimals(named.map((one) => one.cost)), saves: decimals(named.filter((one) => !one.today).map((one) => one.saves)) };
  return card("What if", currency ? best(named, today, currency) : h("p", { class: "warn" }, "No price was known: costs are not compared."),
    drawn(tried, named, currency),
    h("ul", { class: "legend" }, h("li", { class: "today" }, "today's settings"), h("li", { class: "front" }, "none is better in every respect"), tried.length > named.length ? h("li", { class: "others" }, "others") : null),
    // The settings come last: a long name wraps there and cuts nothing off.
    table("What if: settings", [["no.", "number"], ["a month", "number"], ["saves", "number"], ["pending a day", "number"], ["evictions", "number"], ["settings"]],
      named.map((one) => [String(one.number), money(one.cost, currency, digits.cost), one.saves === null || one.today ? "–" : money(one.saves, currency, digits.saves), span(one.pending), String(one.evictions_a_day), one.today ? `${one.name} (today)` : one.name])),
    h("p", { class: "quiet" }, "Saved a month, compared with today's settings. Pending: of all pods, added up. Evictions: a day."),
    h("p", { class: "quiet" }, `Backtest of ${found.recording} (${span(found.seconds)}), published ${moment(found.published_at, true)}. ${capital(found.calibration || "calibration: unknown")}.`),
    source("/api/v1/backtest"));
}

function best(named, today, currency) {
  const saving = named.filter((one) => one.saves > 0).sort((a, b) => b.saves - a.saves)[0];
  if (!today || !saving) return h("p", {}, `None of ${plural(named.length, "setting")} on the chart costs less than today's.`);
  const more = saving.pending - today.pending;
  const pending = Math.abs(more) < 1 ? "as much" : `${span(Math.abs(more))} ${more < 0 ? "less" : "more"} a day`;
  return stats([["saves a month", money(saving.saves, currency), "good"], ["with", saving.name], ["pods pending, added up", pending, more >= 1 ? "warn" : ""]]);
}

function drawn(tried, named, currency) {
  const page = document.getElementById("page").clientWidth;
  const wide = Math.max(300, (page > 1096 ? page / 2 : page) - 70);
  const low = Math.min(...tried.map((one) => one.cost));
  const high = Math.max(...tried.map((one) => one.cost));
  const most = Math.max(...tried.map((one) => one.pending), 1);
  const x = (one) => LEFT + 16 + ((one.cost - low) / (high - low || 1)) * (wide - LEFT - RIGHT - 32);
  const y = (one) => TALL - BOTTOM - 10 - (one.pending / most) * (TALL - TOP - BOTTOM - 20);
  const svg = s("svg", { class: "chart whatif", viewBox: `0 0 ${wide} ${TALL}`, role: "img", "aria-label": `Cost a month and time that pods are pending, of ${plural(tried.length, "setting")}; the table below has the values` });
  svg.append(s("path", { class: "axis", fill: "none", d: `M${LEFT},${TOP}V${TALL - BOTTOM}H${wide - RIGHT}` }),
    words(0, 12, "start", "pods pending, a day"), words(LEFT - 6, y({ pending: most }) + 4, "end", brief(most)), words(LEFT - 6, y({ pending: 0 }) + 4, "end", "0"),
    words(LEFT, TALL - 16, "start", money(low, currency)), words(wide - RIGHT, TALL - 16, "end", high > low ? money(high, currency) : ""), words((LEFT + wide) / 2, TALL - 2, "middle", "cost a month"));
  const front = named.filter((one) => one.front);
  if (front.length > 1) svg.append(s("path", { class: "front-line", d: front.map((one, at) => `${at ? "L" : "M"}${x(one).toFixed(1)},${y(one).toFixed(1)}`).join("") }));
  for (const one of [...tried.filter((each) => !each.number), ...named]) {
    const dot = one.today ? s("rect", { class: "dot today", x: (x(one) - 6).toFixed(1), y: (y(one) - 6).toFixed(1), width: 12, height: 12 })
      : s("circle", { class: `dot ${one.front ? "front" : "others"}`, cx: x(one).toFixed(1), cy: y(one).toFixed(1), r: one.front ? 6 : 4 });
    dot.append(titled(`${one.name}: ${money(one.cost, currency)} a month`));
    svg.append(dot);
    if (one.number) svg.append(words(x(one) + 10, y(one) - 6, "start", one.today ? `${one.number} today` : String(one.number)));
  }
  return svg;
}

function titled(text) {
  const element = s("title");
  element.textContent = text;
  return element;
}

function words(x, y, anchor, text) {
  const element = s("text", { x, y, "text-anchor": anchor });
  element.textContent = text;
  return element;
}

function brief(seconds) {
  return seconds < 3600 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
