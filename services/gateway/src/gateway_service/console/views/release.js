// One release: how far it is, what its traffic shows, and what people can do with it.

import { follow, get, post } from "../api.js";
import { Chart } from "../chart.js";
import { el, facts, number, problem, section, table } from "../dom.js";
import { clock, count, percentOf, seconds, short, span, version, word } from "../format.js";
import { actions, intervals, modelLink, state, to, versionLink } from "./parts.js";

const ACTIONS = {
  pause: ["Pause", "All traffic goes to the baseline until it is resumed.", false, ["STATE_PROGRESSING"]],
  resume: ["Resume", "Continues the paused stage.", false, ["STATE_PAUSED"]],
  promote: [
    "Promote now",
    "The candidate becomes the champion now: skips the stages that are left.",
    false,
    ["STATE_PROGRESSING", "STATE_PAUSED", "STATE_WATCHING"],
  ],
  rollback: [
    "Roll back",
    "All traffic goes back to the baseline, now.",
    true,
    ["STATE_PREPARING", "STATE_PROGRESSING", "STATE_PAUSED", "STATE_PROMOTING", "STATE_WATCHING"],
  ],
};
const BOUNDS = {
  BOUND_ERROR_RATE: "error rate",
  BOUND_LEFT: "callers who left",
  BOUND_LATENCY: "slow answers",
  BOUND_QUALITY: "loss of quality",
};

export async function release({ host, parts: [id], signal }) {
  const about = el("div"),
    said = el("div", { "aria-live": "polite" });
  const evidence = el("div"),
    arms = el("div"),
    history = el("ol", { class: "history" });
  const traffic = new Chart("Percent of traffic for the candidate", {
    time: true,
    xlabel: "time",
    step: true,
    range: [0, 105],
    height: 150,
  });
  const trace = new Trace();
  signal.addEventListener("abort", () => (traffic.remove(), trace.remove()), { once: true });
  const can = actions(id, ACTIONS, async (name, reason) =>
    show((await post(to("releases", id, name), { reason })).release),
  );
  host.append(
    about,
    can.node,
    said,
    section("Bounds", evidence, trace.node),
    section("Arms in the present stage", arms),
    section("History", traffic.node, history),
  );

  function show(now) {
    about.replaceChildren(
      facts([
        ["state", state(now.state)],
        ["candidate", versionLink(now.spec.candidate)],
        ["baseline", versionLink(now.baseline)],
        ["traffic", `${now.percent} % to the candidate`],
        ["kept with the baseline until the watch ends", `${now.spec.baseline_percent ?? 0} %`],
        ["gate", now.spec.gate_id],
        ["model", modelLink(now.spec.candidate.model)],
        ["started by key", now.actor],
      ]),
      now.failure ? problem({ message: now.failure.message }) : "",
      now.waits_for
        ? el("p", { class: "conclusion" }, `Waits: ${now.waits_for}`)
        : now.events.length
          ? el("p", { class: "conclusion" }, now.events.at(-1).reason)
          : "",
      el(
        "ol",
        { class: "stages", "aria-label": "Stages" },
        now.spec.stages.map((stage, place) =>
          el(
            "li",
            {
              class: place < now.stage ? "past" : "",
              "aria-current": place === now.stage && !now.end_time ? "step" : null,
            },
            `${stage.percent} %`,
          ),
        ),
      ),
    );
    can.show(now.state);
    evidence.replaceChildren(bounds(now));
    trace.add(now.checks);
    arms.replaceChildren(
      table(
        ["", "requests", "units", "errors", "left", "p95 latency", "scored", "mean score"],
        [
          ["baseline", now.baseline, now.baseline_stats],
          ["candidate", now.spec.candidate, now.candidate_stats],
        ].map(([name, ref, stats = {}]) => [
          `${name} ${version(ref)}`,
          number(count(stats.requests)),
          number(count(stats.units)),
          number(count(stats.errors)),
          number(count(stats.left)),
          number(stats.latency_p95 ? span(seconds(stats.latency_p95)) : "–"),
          number(count(stats.scored)),
          number(short(stats.mean_score)),
        ]),
        { caption: "Arms" },
      ),
    );
    const points = now.events.map((event) => [Date.parse(event.create_time) / 1000, event.percent]);
    if (points.length && !now.end_time) points.push([Date.now() / 1000, now.percent]);
    if (points.length) traffic.draw([{ label: "percent", hue: 2, points }]);
    history.replaceChildren(
      ...now.events.map((event) =>
        el(
          "li",
          {},
          el("span", {}, clock(event.create_time)),
          el("span", {}, `${event.percent} %`),
          el("span", {}, event.reason, event.actor && el("span", { class: "note" }, ` by key ${event.actor}`)),
        ),
      ),
    );
  }

  show((await get(to("releases", id), {}, signal)).release);
  await follow(
    to("releases", id, "watch"),
    () => ({}),
    signal,
    (message) => (said.replaceChildren(), show(message.release)),
    (error) => said.replaceChildren(problem(error)),
  );
}

// The intervals of the bounds as they came since the page was opened: the API has them as they are now.
class Trace {
  constructor() {
    this.charts = new Map();
    this.node = el("div", { class: "charts" });
  }

  add(checks) {
    for (const { bound, beyond } of checks.filter((check) => check.beyond)) {
      if (!this.charts.has(bound)) {
        const chart = new Chart(`Beyond the bound since you came: ${BOUNDS[bound]}`, {
          time: true,
          xlabel: "time",
          lines: [0],
        });
        this.charts.set(bound, { chart, seen: [] });
        this.node.append(chart.node);
      }
      const { chart, seen } = this.charts.get(bound);
      seen.push([Date.now() / 1000, beyond]);
      const points = seen.map(([x, { value }]) => [x, value]);
      chart.draw([
        {
          label: "beyond",
          hue: 0,
          points,
          low: seen.map(([, { low }]) => low),
          high: seen.map(([, { high }]) => high),
        },
      ]);
    }
  }

  remove() {
    this.charts.forEach(({ chart }) => chart.remove());
  }
}

function bounds(now) {
  const rows = now.checks
    .filter((check) => check.beyond)
    .map((check) => ({
      ...check.beyond,
      label: BOUNDS[check.bound],
      mood: { STATE_HOLDS: "good", STATE_BROKEN: "bad" }[check.state],
      text: `${word(check.state)}: ${check.beyond.value > 0 ? "+" : ""}${percentOf(check.beyond.value)}`,
    }));
  return el(
    "div",
    {},
    rows.length > 0 &&
      el(
        "p",
        { class: "note" },
        "Distance of the candidate beyond each bound, with an interval that is valid at all looks. Wholly left of the line: the bound holds. Wholly right: the release is rolled back.",
      ),
    rows.length > 0 && intervals(rows, { label: "Bounds" }),
    el(
      "ul",
      {},
      now.checks.map((check) => el("li", {}, check.sentence)),
    ),
    !now.checks.length && el("p", { class: "note" }, "It has ended, or no traffic is compared yet."),
  );
}
