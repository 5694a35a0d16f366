// Money: what is paid, what was saved and by what, what could still be saved and what holds it back, and for whom.

import { NO_POLICIES, ask, askScaling } from "./api.js";
import { barsByDay, lineOver, stackedByDay } from "./chart.js";
import { card, stats, h, redraw, source, table } from "./dom.js";
import { whatIf } from "./whatif.js";
import { decimals, money as sum, plural, share } from "./words.js";

const CAUSES = [["scale_down", "scale-down"], ["consolidation", "consolidation"], ["spot", "spot"], ["sleep", "sleep"]];
const RANGES = [[24, "24 h"], [168, "7 d"], [720, "30 d"]];
const HOURS_A_MONTH = 730;
const REFRESH_MS = 5000;
const LISTED = 8;
const MOST_NAMED = 100;
// The id of an operation tells people nothing here.
const nameless = (says) => says?.replace(/ \(operation [^)]*\)/g, "");

export function money(main, { refresh }) {
  let hours = 24;
  let drawnAt = -Infinity;
  const parts = Object.fromEntries(["sums", "cost", "pools", "namespaces", "possible", "whatif", "sleep", "prices"].map((name) => [name, h("div")]));
  // What is computed from the cluster as it is now is greyed while that cannot be read.
  for (const name of ["sums", "cost", "pools", "namespaces", "possible"]) parts[name].dataset.from = "cluster";
  const chips = RANGES.map(([each, name]) => h("button", { type: "button", class: "chip", "data-asks": "", "aria-pressed": String(each === hours), "data-key": `range-${each}`, onclick: () => range(each) }, name));
  main.append(h("h1", {}, "Money"), parts.sums,
    h("div", { class: "columns" }, h("div", {}, parts.cost, parts.whatif, parts.possible, parts.pools), h("div", {}, parts.namespaces, parts.sleep, parts.prices)));

  function range(chosen) {
    hours = chosen;
    chips.forEach((chip, at) => chip.setAttribute("aria-pressed", String(RANGES[at][0] === chosen)));
    drawnAt = -Infinity;
    refresh();
  }

  function drawSums(spending, now) {
    const { currency, month, saved } = spending;
    const total = CAUSES.reduce((all, [key]) => all + Number(saved[key]), 0);
    const paid = Number(spending.paid);
    const days = spending.days.map((day) => ({ date: day.date, paid: Number(day.paid), ...Object.fromEntries(CAUSES.map(([key]) => [key, Number(day[key])])) }));
    const known = plural(days.length, "day");
    redraw(parts.sums, card("Paid and saved", currency ? [
      stats([[`paid in ${known}`, sum(paid, currency)], [`saved in ${known}`, `${sum(total, currency)}${paid + total ? ` (${share(total / (paid + total))})` : ""}`, total > 0 ? "good" : ""],
        ["a month like this", month ? `${sum(month.expected, currency)}` : "not known before one whole day"],
        ["range of the month", month?.low ? `${sum(month.low, currency)} to ${sum(month.high, currency)}` : "not known yet"]]),
      stackedByDay(days, ["paid", ...CAUSES.map(([key]) => key)], "Paid and saved by day", `${currency} a day`),
      h("ul", { class: "legend" }, h("li", { class: "paid" }, `paid ${sum(paid, currency)}`), CAUSES.map(([key, name]) => h("li", { class: key }, `${name} ${sum(saved[key], currency)}`))),
      h("p", { class: "quiet" }, `Saved compared with ${spending.compared_with}.${days.at(-1)?.date === new Date(now * 1000).toISOString().slice(0, 10) ? " The last bar is today so far." : ""}`, month ? ` The month is projected from ${plural(month.days, "whole day")}, its range from the cheapest and the most expensive week.` : ""),
      h("details", { "data-key": "spending-table" }, h("summary", {}, "As a table"), table("Paid and saved by day", [["day"], ["paid", "number"], ...CAUSES.map(([, name]) => [name, "number"])],
        days.slice().reverse().map((day) => [day.date, day.paid.toFixed(2), ...CAUSES.map(([key]) => day[key].toFixed(2))]))),
    ] : h("p", { class: "quiet" }, "No price is known, or prices are in several currencies: nothing can be added up."), source("/api/v1/spending")));
  }

  function drawCost(costs) {
    const points = costs.points.map((point) => ({ at: point.at, value: Number(point.per_hour) }));
    const monthly = costs.per_hour === null ? "unknown" : sum(Number(costs.per_hour) * HOURS_A_MONTH, costs.currency);
    redraw(parts.cost, card("Cost an hour", h("p", { class: "row", role: "group", "aria-label": "Range" }, chips),
      stats([["now", sum(costs.per_hour, costs.currency)], ["at this rate, a month", monthly], ["paid in the last 24 hours", sum(costs.last_day, costs.currency)]]),
      costs.unpriced ? h("p", { class: "warn" }, `${plural(costs.unpriced, "worker")} without a known price, not included.`) : null,
      points.length > 1 ? lineOver(points, "Cost an hour over time", `${costs.currency} an hour`) : h("p", { class: "quiet" }, "Not enough was seen yet to draw a line."),
      source("/api/v1/costs")));
  }

  function drawShares(spending, waiting) {
    const pending = (name) => waiting.filter((pod) => pod.startsWith(`${name}/`)).length;
    const rows = (all, counts = (each) => each.count) => {
      const hourly = all.map((each) => each.per_hour);
      const monthly = hourly.map((each) => Number(each) * HOURS_A_MONTH);
      const digits = [decimals(hourly), decimals(monthly)];
      return all.map((each, at) => [each.name, counts(each), sum(hourly[at], spending.currency, digits[0]), `${each.unpriced ? "at least " : ""}${sum(monthly[at], spending.currency, digits[1])}`]);
    };
    const total = (all) => all.reduce((added, each) => added + Number(each.per_hour), 0);
    const unasked = total(spending.pools) - total(spending.namespaces);
    const pools = rows(spending.pools);
    // Of very many the status names the first hundred alone.
    const most = waiting.length < MOST_NAMED ? "" : "at least ";
    const namespaces = rows(spending.namespaces, (each) => (pending(each.name) ? `${each.count} (${most}${pending(each.name)} pending)` : each.count));
    const slept = decimals(spending.namespaces.map((each) => each.slept));
    redraw(parts.pools, card("By pool", table("Cost by pool", [["pool"], ["nodes", "number"], ["an hour", "number"], ["a month at this rate", "number"], ["not requested", "number"]],
      spending.pools.map((each, at) => [...pools[at], Number(each.per_hour) ? share(Number(each.idle_per_hour) / Number(each.per_hour)) : "–"])),
    h("p", { class: "quiet" }, "Not requested: the share of the cost that no pod's requests use."), source("/api/v1/spending")));
    redraw(parts.namespaces, card("By namespace", table("Cost by namespace", [["namespace"], ["pods", "number"], ["an hour", "number"], ["a month at this rate", "number"], ["saved by sleep", "number"]],
      spending.namespaces.map((each, at) => [...namespaces[at], Number(each.slept) ? sum(each.slept, spending.currency, slept) : "–"])),
    h("p", { class: "quiet" }, `Pods on workers; those on the control plane are not counted. A pod costs the larger of its CPU and memory share of its node.${unasked > 0.005 ? ` The other ${sum(unasked, spending.currency)} an hour are for what no pod requests.` : ""}`), source("/api/v1/spending")));
  }

  function drawPossible(report, currency, unread) {
    const plan = report.candidate;
    const refused = nameless(report.refused);
    const kept = report.nodes.filter((node) => node.kept && node.why && node.cost_per_hour !== null).sort((a, b) => Number(b.cost_per_hour) - Number(a.cost_per_hour));
    const digits = decimals(kept.slice(0, LISTED).map((node) => node.cost_per_hour));
    redraw(parts.possible, card("What could still be saved", plan
      ? [stats([["possible", `${sum(plan.savings_per_hour, plan.currency)} an hour`], ["a month", sum(Number(plan.savings_per_hour) * HOURS_A_MONTH, plan.currency)], ["pods to move", plan.moves], ["no set of nodes costs less than", `${sum(plan.bound, plan.currency)} an hour`]]),
        h("p", {}, refused ? `Not done now: ${refused}.` : "It may be done now.")]
      : h("p", {}, refused ? `${unread ? "Not known" : "No plan"} now: ${refused}.` : "Nothing to gain: no cheaper set of nodes was found."),
    kept.length ? [h("h3", {}, "What holds nodes"), table("What holds nodes", [["node"], ["an hour", "number"], ["why"]], kept.slice(0, LISTED).map((node) => [node.name, sum(node.cost_per_hour, plan?.currency ?? currency, digits), nameless(node.why)])),
      kept.length > LISTED ? h("p", { class: "quiet" }, `and ${plural(kept.length - LISTED, "more node")}`) : null] : null,
    source("/api/v1/consolidation")));
  }

  function drawSleep(summary) {
    const days = summary.daily_breakdown.map((day) => ({ date: day.date, potential: Number(day.potential), realised: Number(day.realised), net: Number(day.net) })).reverse();
    const yesterday = summary.daily_breakdown.find((day) => day.date === summary.yesterday);
    redraw(parts.sleep, card("Saved by sleep",
      stats([["yesterday, potential", sum(yesterday?.potential ?? "0", summary.currency)], ["yesterday, realised", sum(yesterday?.realised ?? "0", summary.currency)],
        ["yesterday, net", sum(yesterday?.net ?? "0", summary.currency)], ["30 days, net", sum(summary.totals.net, summary.currency)]]),
      days.length ? [barsByDay(days, ["potential", "realised", "net"], "Savings by day", `${summary.currency} a day`),
        h("ul", { class: "legend" }, h("li", { "data-state": "idle" }, "potential: workloads freed"), h("li", { "data-state": "ready" }, "realised: nodes that were not paid for"), h("li", { "data-state": "joining" }, "net: after wakes and churn")),
        h("details", { "data-key": "savings-table" }, h("summary", {}, "As a table"), table("Savings by day", [["day"], ["potential", "number"], ["realised", "number"], ["net", "number"]],
          days.slice().reverse().map((day) => [day.date, day.potential.toFixed(4), day.realised.toFixed(4), day.net.toFixed(4)])))]
        : h("p", { class: "quiet" }, "Nothing has slept yet. A policy with scale_to_zero saves while its workload is at zero."),
      source("/api/v1/scaling/savings/summary")));
  }

  function drawPrices(prices) {
    const digits = decimals(prices.prices.map((price) => price.per_hour));
    redraw(parts.prices, card("Prices", table("Prices", [["pool"], ["type"], ["market"], ["an hour", "number"], ["from"]],
      prices.prices.map((price) => [price.pool, price.instance_type, price.market, sum(price.per_hour, price.currency, digits), price.source || price.as_of ? [price.source, price.source && price.as_of ? ", " : "", h("span", { class: "whole" }, price.as_of ?? "")] : "–"])),
    source("/api/v1/prices")));
  }

  return {
    async refresh(status) {
      // A month of the log is read for it: not at every tick.
      if (performance.now() - drawnAt < REFRESH_MS) return;
      const [costs, spending, summary, report, prices, tried] = await Promise.all([ask(`/api/v1/costs?hours=${hours}`), ask("/api/v1/spending"),
        askScaling("/api/v1/scaling/savings/summary"), ask("/api/v1/consolidation"), ask("/api/v1/prices"), ask("/api/v1/backtest")]);
      // Only once it was read: a refresh that failed is made again at once.
      drawnAt = performance.now();
      drawSums(spending, status.now);
      drawCost(costs);
      drawShares(spending, status.waiting);
      drawPossible(report, spending.currency, status.stale.some((each) => ["cluster", "cloud"].includes(each.source)));
      redraw(parts.whatif, whatIf(tried.backtest));
      if (summary) drawSleep(summary);
      else redraw(parts.sleep, card("Saved by sleep", h("p", { class: "quiet" }, NO_POLICIES)));
      drawPrices(prices);
    },
  };
}
