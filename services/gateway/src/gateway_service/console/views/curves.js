// The curves of runs.

import { follow } from "../api.js";
import { Chart } from "../chart.js";
import { el, problem, section, svg, table } from "../dom.js";
import { word } from "../format.js";
import { field, select } from "../forms.js";
import { runLink, to } from "./parts.js";

const FIRST = {
  reward_mean: "Reward, mean of a step",
  validation_score: "Validation score",
  loss: "Loss",
  kl: "KL",
  response_tokens_mean: "Tokens of an answer, mean",
  entropy: "Entropy",
  grad_norm: "Gradient norm",
  clip_fraction: "Share of clipped ratios",
  logprob_diff_mean: "Trainer against rollout, mean |p - p'|",
  tokens_per_second: "Tokens a second",
  time_step_s: "Seconds of a step",
};
export const ENDED = ["STATE_SUCCEEDED", "STATE_FAILED", "STATE_CANCELLED"];

const ENDS = ["_score_low", "_score_high"];

const SMOOTHINGS = { none: 0, some: 0.6, much: 0.9 };

// The exponential mean of values, without the pull of its beginning.
function smoothed(values, share) {
  let mean = 0,
    weight = 0;
  return values.map((value) => {
    mean = share * mean + (1 - share) * value;
    weight = share * weight + 1 - share;
    return mean / weight;
  });
}

const brief = (id, run) => run?.spec.display_name || `…${id.slice(-5)}`;

// "hyperparameters.learning_rate" -> its value.
function settings(value, path = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[path, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([name, below]) => settings(below, path ? `${path}.${name}` : name));
}

// The settings that not all runs share, each with its value in each run.
function differences(specs) {
  const all = specs.map((spec) => new Map(settings(spec)));
  const paths = [...new Set(all.flatMap((one) => [...one.keys()]))].filter((path) => path !== "display_name");
  return paths
    .filter((path) => new Set(all.map((one) => one.get(path))).size > 1)
    .map((path) => [path, ...all.map((one) => one.get(path) ?? "–")]);
}

// Of one measure, with a band where its interval is known.
function curve(name, steps, smoothing) {
  const known = [...steps].filter(([, metrics]) => name in metrics).sort((a, b) => a[0] - b[0]);
  const [low, high] = ["low", "high"].map((end) => known.map(([, metrics]) => metrics[`${name}_${end}`] ?? null));
  const values = known.map(([, metrics]) => metrics[name]);
  if (smoothing) return { points: smoothed(values, smoothing).map((value, place) => [known[place][0], value]) };
  const points = known.map(([number], place) => [number, values[place]]);
  return low.some((one) => one !== null) ? { points, low, high } : { points };
}

// The curves of some runs: each measure is a chart, each run a curve in it. Runs under way go on by themselves.
export class Curves {
  constructor(signal, seen = () => {}) {
    this.signal = signal;
    this.seen = seen;
    this.runs = new Map();
    this.charts = new Map();
    this.key = el("ul", { class: "key", "aria-label": "Curves" });
    this.said = el("div", { "aria-live": "polite" });
    this.differs = el("div");
    this.log = el("input", { type: "checkbox", name: "log", onchange: () => this.#anew() });
    this.smoothing = select(
      "smoothing",
      Object.keys(SMOOTHINGS).map((name) => [name, name]),
    );
    this.smoothing.addEventListener("change", () => this.#draw());
    this.how = el(
      "div",
      { class: "fields", hidden: true },
      field("Smoothing", this.smoothing),
      field("Logarithmic axis", this.log),
    );
    this.first = el("div", { class: "charts" });
    this.rest = el("div", { class: "charts" });
    this.more = el(
      "details",
      { hidden: true, ontoggle: () => this.#draw() },
      el("summary", {}, "All other measures"),
      this.rest,
    );
    this.node = el("div", {}, this.key, this.differs, this.said, this.how, this.first, this.more);
    signal.addEventListener("abort", () => this.charts.forEach((chart) => chart.remove()), { once: true });
  }

  add(id) {
    const hues = [...this.runs.values()].map(({ hue }) => hue);
    const hue = [0, 1, 2, 3, 4, 5].find((one) => !hues.includes(one));
    const left = new AbortController();
    this.signal.addEventListener("abort", () => left.abort(), { once: true });
    const one = { hue, steps: new Map(), left, run: null };
    this.runs.set(id, one);
    const from = () => ({ after_step: Math.max(0, ...one.steps.keys()) || "" });
    follow(
      to("runs", id, "watch"),
      from,
      left.signal,
      ({ run, steps }) => {
        one.run = run;
        for (const step of steps) one.steps.set(step.number, step.metrics);
        this.said.replaceChildren();
        this.seen(run);
        this.#soon();
      },
      (error) => this.said.replaceChildren(problem(error)),
    ).catch((error) => this.said.replaceChildren(problem(error)));
    this.#soon();
  }

  drop(id) {
    this.runs.get(id)?.left.abort();
    this.runs.delete(id);
    this.#soon();
  }

  #soon() {
    this.waiting ??= setTimeout(() => ((this.waiting = null), this.signal.aborted || this.#draw()), 100);
  }

  #anew() {
    this.charts.forEach((chart) => chart.remove());
    this.charts.clear();
    this.#draw();
  }

  // Above the curves: what they may come of.
  #compare() {
    const known = [...this.runs].filter(([, { run }]) => run);
    const rows = known.length > 1 ? differences(known.map(([, { run }]) => run.spec)) : [];
    const shown = JSON.stringify([known.map(([id]) => id), rows]);
    if (shown === this.compared) return;
    this.compared = shown;
    if (known.length < 2) return this.differs.replaceChildren();
    const names = known.map(([id, { run }]) => brief(id, run));
    const none = el("p", { class: "note" }, "Their settings are the same.");
    this.differs.replaceChildren(
      section("What differs", table(["setting", ...names], rows, { caption: "What differs", empty: none })),
    );
  }

  #draw() {
    this.#compare();
    const seen = new Set([...this.runs.values()].flatMap(({ steps }) => [...steps.values()].flatMap(Object.keys)));
    for (const name of [...seen]) if (ENDS.some((end) => name.endsWith(end))) seen.delete(name); // bands of others
    const names = [
      ...Object.keys(FIRST).filter((name) => seen.has(name)),
      ...[...seen].filter((name) => !(name in FIRST)).sort(),
    ];
    this.how.hidden = !names.length;
    this.more.hidden = !names.some((name) => !(name in FIRST));
    for (const [name, chart] of this.charts) if (!seen.has(name)) (chart.remove(), this.charts.delete(name));
    for (const name of names) {
      if (!(name in FIRST) && !this.more.open) continue;
      if (!this.charts.has(name)) {
        const chart = new Chart(FIRST[name] ?? name, { log: this.log.checked });
        this.charts.set(name, chart);
        (name in FIRST ? this.first : this.rest).append(chart.node);
      }
      this.charts.get(name).draw(
        [...this.runs]
          .map(([id, { hue, run, steps }]) => ({
            label: id,
            brief: brief(id, run),
            hue,
            ...curve(name, steps, SMOOTHINGS[this.smoothing.value]),
          }))
          .filter(({ points }) => points.length),
      );
    }
    this.key.replaceChildren(
      ...[...this.runs].map(([id, { hue, run, steps }]) =>
        el(
          "li",
          {},
          svg(
            "svg",
            { width: 22, height: 10, "aria-hidden": "true" },
            svg("rect", { width: 22, height: 4, y: 3, fill: `var(--series-${hue})` }),
          ),
          runLink(id),
          run?.spec.display_name && ` ${run.spec.display_name}`,
          run ? ` ${word(run.state)}, step ${run.step} of ${run.spec.steps}` : " …",
          steps.size === 0 && run && !ENDED.includes(run.state) && ": no step is done yet",
        ),
      ),
    );
  }
}
