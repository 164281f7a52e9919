// The curves of runs.

import { follow } from "../api.js";
import { Chart } from "../chart.js";
import { el, problem, svg } from "../dom.js";
import { word } from "../format.js";
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

// Of one measure, with a band where its interval is known.
function curve(name, steps) {
  const known = [...steps].filter(([, metrics]) => name in metrics).sort((a, b) => a[0] - b[0]);
  const [low, high] = ["low", "high"].map((end) => known.map(([, metrics]) => metrics[`${name}_${end}`] ?? null));
  const points = known.map(([number, metrics]) => [number, metrics[name]]);
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
    this.first = el("div", { class: "charts" });
    this.rest = el("div", { class: "charts" });
    this.more = el(
      "details",
      { hidden: true, ontoggle: () => this.#draw() },
      el("summary", {}, "All other measures"),
      this.rest,
    );
    this.node = el("div", {}, this.key, this.said, this.first, this.more);
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

  #draw() {
    const seen = new Set([...this.runs.values()].flatMap(({ steps }) => [...steps.values()].flatMap(Object.keys)));
    for (const name of [...seen]) if (ENDS.some((end) => name.endsWith(end))) seen.delete(name); // bands of others
    const names = [
      ...Object.keys(FIRST).filter((name) => seen.has(name)),
      ...[...seen].filter((name) => !(name in FIRST)).sort(),
    ];
    this.more.hidden = !names.some((name) => !(name in FIRST));
    for (const [name, chart] of this.charts) if (!seen.has(name)) (chart.remove(), this.charts.delete(name));
    for (const name of names) {
      if (!(name in FIRST) && !this.more.open) continue;
      if (!this.charts.has(name)) {
        const chart = new Chart(FIRST[name] ?? name);
        this.charts.set(name, chart);
        (name in FIRST ? this.first : this.rest).append(chart.node);
      }
      this.charts.get(name).draw(
        [...this.runs]
          .map(([id, { hue, steps }]) => ({
            label: id,
            brief: `…${id.slice(-5)}`,
            hue,
            ...curve(name, steps),
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
          run ? ` ${word(run.state)}, step ${run.step} of ${run.spec.steps}` : " …",
          steps.size === 0 && run && !ENDED.includes(run.state) && ": no step is done yet",
        ),
      ),
    );
  }
}
