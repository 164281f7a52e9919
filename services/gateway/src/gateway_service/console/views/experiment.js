// One experiment: its conclusion in words, and how its intervals close.

import { get, post, remove } from "../api.js";
import { Chart } from "../chart.js";
import { el, facts, number, section, table } from "../dom.js";
import { between, clock, count, metricName, percentOf, short, word } from "../format.js";
import { keepingFocus, live } from "../live.js";
import { actions, intervals, modelLink, state, to, versionLink } from "./parts.js";

const POINTS = 24;
const PAST_EVERY = 60_000;
const ACTIONS = {
  start: ["Start", "Variants get their traffic.", false, ["STATE_DRAFT", "STATE_PAUSED"]],
  pause: [
    "Pause",
    "The champion answers all requests. Users keep their variants for the next start.",
    false,
    ["STATE_RUNNING"],
  ],
  conclude: [
    "Conclude",
    "Ends it and keeps its present report, even before its minimum of time and units.",
    false,
    ["STATE_RUNNING", "STATE_PAUSED"],
  ],
  stop: ["Stop", "Ends it without a conclusion.", true, ["STATE_DRAFT", "STATE_RUNNING", "STATE_PAUSED"]],
  delete: [
    "Delete",
    "Deletes it for good, with its report and the prompts that it was to replay.",
    true,
    ["STATE_DRAFT", "STATE_CONCLUDED", "STATE_STOPPED"],
  ],
};
const BODIES = {
  start: () => ({}),
  pause: (reason) => ({ reason }),
  conclude: (reason) => ({ reason, early: true }), // the question has said so
  stop: (reason) => ({ reason }),
};

export async function experiment({ host, parts: [id], signal }) {
  const about = el("div"),
    said = el("div"),
    details = el("div");
  const charts = new Map();
  const closing = el("div", { class: "charts" });
  signal.addEventListener("abort", () => charts.forEach((chart) => chart.remove()), { once: true });
  const can = actions(
    id,
    ACTIONS,
    async (name, reason) => {
      if (name === "delete") {
        await remove(to("experiments", id));
        location.hash = "#/experiments";
        return;
      }
      await post(to("experiments", id, name), BODIES[name](reason));
      read = 0;
      draw(await load());
    },
    ["start", "delete"],
  );
  let past = [],
    read = 0;
  // The earlier reports cost the gateway a look at all records each: they are read again once in a while.
  async function load() {
    const fresh = Date.now() - read > PAST_EVERY;
    const { experiment: now } = await get(to("experiments", id), fresh ? { points: POINTS } : {}, signal);
    if (fresh) [past, read] = [now.past, Date.now()];
    return { ...now, past };
  }
  host.append(about, can.node, said, section("How the intervals close", closing), details);

  function draw(now) {
    can.show(now.state);
    closing.hidden = closing.parentNode.hidden = !now.report;
    if (now.report) drawClosing(now, charts, closing);
    keepingFocus(about, () => about.replaceChildren(...summary(now)));
    keepingFocus(details, () => details.replaceChildren(...(now.report ? numbers(now) : []), way(now)));
    return "";
  }
  await live(said, signal, load, draw, 10);
}

function summary({ spec, report, state: now, start_time, end_time, prompts }) {
  const unconcluded = now === "STATE_STOPPED" ? "It was stopped without a conclusion." : "It was not started yet.";
  return [
    facts([
      ["state", state(now)],
      ["name", spec.display_name],
      ["model", modelLink(spec.variants[0].version.model)],
      ["lasted", between(start_time, end_time)],
      ["unit", word(spec.unit, "UNIT_")],
      ["share of units", percentOf(spec.traffic)],
      ["prompts replayed", spec.replay ? count(prompts) : ""],
      ["analysis", word(spec.analysis, "ANALYSIS_")],
      ["description", spec.description],
    ]),
    el("p", { class: "conclusion" }, report?.conclusion ?? unconcluded),
  ];
}

function numbers({ spec, report }) {
  const rows = report.comparisons
    .filter((one) => one.difference)
    .map((one) => ({
      ...one.difference,
      label: `${one.variant}, ${metricName(one)}`,
      mood: { STANDING_BETTER: "good", STANDING_WORSE: "bad" }[one.standing],
      text: `${short(one.difference.value)} [${short(one.difference.low)}, ${short(one.difference.high)}]`,
    }));
  return [
    section(
      "Against the first variant",
      table(
        ["variant", "metric", "standing", "difference", "interval at", "p"],
        report.comparisons.map((one) => [
          one.variant,
          metricName(one),
          state(one.standing, "STANDING_"),
          number(
            one.difference
              ? `${short(one.difference.value)} [${short(one.difference.low)}, ${short(one.difference.high)}]`
              : "too few units yet",
          ),
          number(percentOf(1 - one.level)),
          number(short(one.p_value)),
        ]),
        { caption: "Comparisons" },
      ),
      grouped(rows),
    ),
    section(
      "Variants",
      table(
        ["variant", "version", "units", "requests", ...report.variants[0].values.map(metricName)],
        report.variants.map((one, place) => [
          one.name,
          versionLink(spec.variants[place].version),
          number(count(one.units)),
          number(count(one.requests)),
          ...one.values.map(({ value }) => number(short(value))),
        ]),
        { caption: "Variants" },
      ),
      el(
        "p",
        { class: "note" },
        `Sample ratio: p = ${short(report.sample_ratio_p_value)}; below 0.001 something is broken.`,
      ),
    ),
  ];
}

function way({ events }) {
  const line = (event) =>
    [clock(event.create_time), word(event.state), event.reason].map((text) => el("span", {}, text));
  return section(
    "History",
    el(
      "ol",
      { class: "history" },
      events.map((event) => el("li", {}, line(event))),
    ),
  );
}

// Metrics have units of their own: each has a picture of its own.
function grouped(rows) {
  const metrics = [...new Set(rows.map(({ label }) => label.split(", ").at(-1)))];
  return metrics.map((metric) =>
    intervals(
      rows.filter(({ label }) => label.endsWith(`, ${metric}`)),
      { label: `Differences in ${metric}` },
    ),
  );
}

// One chart for each variant and metric: the difference and its interval, as they were at earlier moments.
function drawClosing(now, charts, host) {
  const all = [...now.past, now.report];
  for (const { variant, ...compared } of now.report.comparisons) {
    const isIt = (one) => metricName(one) === metricName(compared);
    const metric = [now.spec.primary, ...now.spec.guardrails].find(isIt); // none: who left is compared unasked
    const name = `${variant} minus ${now.spec.variants[0].name}, ${metricName(compared)}`;
    const found = all
      .map((report) => [
        Date.parse(report.create_time) / 1000,
        report.comparisons.find((one) => one.variant === variant && isIt(one))?.difference,
      ])
      .filter(([, difference]) => difference);
    if (!found.length) continue;
    if (!charts.has(name)) {
      const chart = new Chart(name, {
        time: true,
        xlabel: "time",
        lines: metric?.margin ? [-metric.margin, 0, metric.margin] : [0],
        height: 220,
      });
      charts.set(name, chart);
      host.append(chart.node);
    }
    charts.get(name).draw([
      {
        label: "difference",
        hue: 0,
        points: found.map(([x, it]) => [x, it.value]),
        low: found.map(([, it]) => it.low),
        high: found.map(([, it]) => it.high),
      },
    ]);
  }
}
