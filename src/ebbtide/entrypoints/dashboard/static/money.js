// Money: cost an hour over time, savings by day, what consolidation could still save, and where prices come from.

import { NO_POLICIES, ask, askScaling } from "./api.js";
import { barsByDay, lineOver } from "./chart.js";
import { card, stats, h, redraw, source, table } from "./dom.js";
import { money as sum } from "./words.js";

const HOURS_A_MONTH = 730;

function monthly(costs) {
  return costs.per_hour === null ? "unknown" : sum(Number(costs.per_hour) * HOURS_A_MONTH, costs.currency);
}

export function money(main) {
  const parts = { cost: h("div"), savings: h("div"), possible: h("div"), prices: h("div") };
  main.append(h("h1", {}, "Money"), h("div", { class: "grid pair" }, parts.cost, parts.savings, parts.possible, parts.prices));

  function drawCost(costs) {
    const points = costs.points.map((point) => ({ at: point.at, value: Number(point.per_hour) }));
    redraw(parts.cost, card("Cost an hour", stats([["now", sum(costs.per_hour, costs.currency)], ["at this rate, a month", monthly(costs)], ["paid in the last 24 hours", sum(costs.last_day, costs.currency)]]),
      points.length > 1 ? lineOver(points, "Cost an hour over time", 3) : h("p", { class: "quiet" }, "Not enough was seen yet to draw a line."),
      source("/api/v1/costs")));
  }

  function drawSavings(summary) {
    const days = summary.daily_breakdown.map((day) => ({ date: day.date, potential: Number(day.potential), realised: Number(day.realised), net: Number(day.net) })).reverse();
    const yesterday = summary.daily_breakdown.find((day) => day.date === summary.yesterday);
    const total = summary.totals;
    redraw(parts.savings, card("Saved by day",
      stats([["yesterday, potential", sum(yesterday?.potential ?? "0", summary.currency)], ["yesterday, realised", sum(yesterday?.realised ?? "0", summary.currency)],
        ["yesterday, net", sum(yesterday?.net ?? "0", summary.currency)], ["30 days, net", sum(total.net, summary.currency)]]),
      days.length ? [barsByDay(days, ["potential", "realised", "net"], "Savings by day"),
        h("ul", { class: "legend" }, h("li", { "data-state": "idle" }, "potential: workloads freed"), h("li", { "data-state": "ready" }, "realised: nodes that were not paid for"), h("li", { "data-state": "joining" }, "net: after wakes and churn")),
        h("details", { "data-key": "savings-table" }, h("summary", {}, "As a table"), table("Savings by day", [["day"], ["potential", "number"], ["realised", "number"], ["net", "number"]],
          days.slice().reverse().map((day) => [day.date, day.potential.toFixed(4), day.realised.toFixed(4), day.net.toFixed(4)])))]
        : h("p", { class: "quiet" }, "Nothing has slept yet. A policy with scale_to_zero saves while its workload is at zero."),
      source("/api/v1/scaling/savings/summary")));
  }

  function drawPossible(report) {
    const plan = report.candidate;
    redraw(parts.possible, card("What consolidation could still save", plan
      ? [stats([["possible", `${sum(plan.savings_per_hour, plan.currency)} an hour`], ["cost after", sum(plan.cost_after, plan.currency)], ["proven bound", sum(plan.bound, plan.currency)], ["pods to move", plan.moves]]),
        h("p", {}, report.refused ? `Not done: ${report.refused}.` : "It may be done now.")]
      : h("p", { class: "quiet" }, report.refused ? `Nothing to gain, or not to be said: ${report.refused}.` : "Nothing to gain."),
    source("/api/v1/consolidation")));
  }

  function drawPrices(prices) {
    redraw(parts.prices, card("Prices", table("Prices", [["pool"], ["type"], ["market"], ["an hour", "number"], ["from"]],
      prices.prices.map((price) => [price.pool, price.instance_type, price.market, sum(price.per_hour, price.currency), [price.source, price.as_of].filter(Boolean).join(", ") || "–"])),
    source("/api/v1/prices")));
  }

  return {
    async refresh() {
      const [costs, summary, report, prices] = await Promise.all([ask("/api/v1/costs"), askScaling("/api/v1/scaling/savings/summary"), ask("/api/v1/consolidation"), ask("/api/v1/prices")]);
      drawCost(costs);
      if (summary) drawSavings(summary);
      else redraw(parts.savings, card("Saved by day", h("p", { class: "quiet" }, NO_POLICIES)));
      drawPossible(report);
      drawPrices(prices);
    },
  };
}
