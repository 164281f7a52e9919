// Two evaluations compared: the whole, which problems were won and lost, and both answers to one of them.

import { get, post } from "../api.js";
import { el, facts, number, section, table } from "../dom.js";
import { interval, percentOf, short, signed } from "../format.js";
import { later } from "../live.js";
import { measured, sets } from "./evaluations.js";
import { evaluationLink, intervals, link, to } from "./parts.js";
import { measured as sample, problemOf } from "./samples.js";

const SHOWN = 100;

export async function comparison({ host, parts: [baseline_id, candidate_id], query, signal }) {
  host.append(el("p", { class: "note" }, "Compared, problem by problem …"));
  const both = await Promise.all([baseline_id, candidate_id].map((id) => get(to("evaluations", id), {}, signal)));
  const [before, after] = both.map(({ evaluation: one }) => one);
  const sides = facts([
    ["baseline", el("span", {}, evaluationLink(before.id), ` ${measured(before)} on ${sets(before)}`)],
    ["candidate", el("span", {}, evaluationLink(after.id), ` ${measured(after)} on ${sets(after)}`)],
  ]);
  if (query.has("problem_id")) return answers(host, sides, before, after, Object.fromEntries(query), signal);
  const { comparison: whole, benchmarks } = await post("evaluations/compare", { baseline_id, candidate_id });
  if (signal.aborted) return;
  const { difference } = whole;
  const words =
    difference.low > 0
      ? "The candidate is better"
      : difference.high < 0
        ? "The candidate is worse"
        : "No difference is shown";
  const rows = [
    ["whole score", whole],
    ...(benchmarks.length > 1 ? benchmarks.map((one) => [one.name, one.comparison]) : []),
  ];
  host.replaceChildren(
    sides,
    el(
      "p",
      { class: "conclusion" },
      `${words}: ${signed(difference.value)} in pass@1, ${percentOf(whole.confidence)} interval [${signed(difference.low)}, ${signed(difference.high)}], p = ${short(whole.p_value)}, over ${whole.problems} problems.`,
    ),
    section(
      "Scores",
      intervals(
        [
          ["baseline", whole.baseline],
          ["candidate", whole.candidate],
        ].map(([label, it]) => ({ ...it, label, text: interval(it) })),
        { label: "pass@1", from: 0, to: 1 },
      ),
    ),
    section(
      "Difference, paired by problem",
      intervals(
        rows.map(([label, { difference: it }]) => ({
          ...it,
          label,
          mood: it.low > 0 ? "good" : it.high < 0 ? "bad" : "plain",
          text: `${signed(it.value)} [${signed(it.low)}, ${signed(it.high)}]`,
        })),
        { label: "Differences in pass@1" },
      ),
      table(
        ["", "problems", "families", "won", "lost", "p", "smallest difference that would show"],
        rows.map(([name, it]) => [
          name,
          number(it.problems),
          number(it.clusters),
          number(it.won),
          number(it.lost),
          number(short(it.p_value)),
          number(short(it.detectable_difference)),
        ]),
        { caption: "Comparison" },
      ),
    ),
    ...benchmarks.map((one) => changes(one, before.id, after.id)),
    el("p", {}, link(to("compare", after.id, before.id), "The other way round")),
  );
  return undefined;
}

function changes({ name, changed }, ...ids) {
  const most = [...changed].sort((a, b) => Math.abs(b.candidate - b.baseline) - Math.abs(a.candidate - a.baseline));
  const at = (id) => `${to("compare", ...ids)}?${new URLSearchParams({ benchmark: name, problem_id: id })}`;
  return section(
    `Won and lost: ${name}`,
    table(
      ["problem", "result", "baseline", "candidate"],
      most
        .slice(0, SHOWN)
        .map((one) => [
          link(at(one.problem_id), one.problem_id),
          one.candidate > one.baseline
            ? el("span", { class: "state good" }, "won")
            : el("span", { class: "state bad" }, "lost"),
          number(percentOf(one.baseline)),
          number(percentOf(one.candidate)),
        ]),
      {
        caption: `Won and lost: ${name}`,
        empty: el("p", { class: "note" }, "No problem is solved more often by one of the two."),
      },
    ),
    most.length > SHOWN &&
      el(
        "p",
        { class: "note" },
        `${SHOWN} of ${most.length}. All: `,
        el("code", {}, `ratchet evaluations compare ${ids.join(" ")} --json`),
      ),
  );
}

// What both wrote to one problem, side by side: of each, open is the first that shows why it was won or lost.
async function answers(host, sides, before, after, problem, signal) {
  const both = await Promise.all(
    [before, after].map((one) => get(to("evaluations", one.id, "samples"), { ...problem, page_size: SHOWN }, signal)),
  );
  const asked = el("div");
  const rate = ({ samples }) => samples.filter(passed).length / (samples.length || 1);
  const won = both.map(rate).map((own, place, all) => own > all[1 - place]);
  host.replaceChildren(
    sides,
    el("p", {}, link(to("compare", before.id, after.id), "All that was won and lost")),
    section(problem.problem_id, asked),
    el(
      "div",
      { class: "pair" },
      both.map(({ samples }, place) => {
        const shown = samples.map((one) => sample(one, (place ? after : before).id));
        (shown[samples.findIndex((one) => passed(one) === won[place])] ?? shown[0])?.setAttribute("open", "");
        return section(`${place ? "Candidate" : "Baseline"}: ${measured(place ? after : before)}`, ...shown);
      }),
    ),
  );
  later(asked, () => problemOf(before.id, problem, signal));
}

const passed = (one) => one.verdict === "VERDICT_PASSED";
