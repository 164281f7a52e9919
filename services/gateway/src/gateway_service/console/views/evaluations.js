// Evaluations, what is in one, and two of them compared.

import { get, list, post, remove } from "../api.js";
import { el, empty, facts, number, problem, section, table } from "../dom.js";
import {
  ago,
  between,
  clock,
  cost,
  count,
  interval,
  model,
  percentOf,
  short,
  signed,
  used,
  version,
  word,
} from "../format.js";
import { field, form, select } from "../forms.js";
import { later, live, refresh } from "../live.js";
import { filters } from "./filters.js";
import { evaluationForm } from "./evaluation_form.js";
import { actions, bar, evaluationLink, hash, intervals, state, to } from "./parts.js";
import { ORDER, measured as sample, pages, verdicts } from "./samples.js";

const START = "ratchet evaluate --model starter --benchmark composed/test";
const DONE = "STATE_SUCCEEDED";
const ACTIONS = {
  cancel: ["Cancel the evaluation", "Ends it now. Its samples stay.", true, ["STATE_QUEUED", "STATE_RUNNING"]],
  delete: [
    "Delete",
    "Deletes it for good, with its samples.",
    true,
    ["STATE_SUCCEEDED", "STATE_FAILED", "STATE_CANCELLED"],
  ],
};

export const sets = (one) => one.spec.problems?.name || one.spec.suite.map(({ problems }) => problems.name).join(", ");
export const measured = (one) => version(one.version) || model(one.spec.model) || "imported samples";
export const titled = (one) => `${measured(one)} on ${sets(one)}, ${one.id}`;
const ORDERS = {
  newest: null,
  oldest: (a, b) => (a.create_time < b.create_time ? -1 : 1),
  "by score": (a, b) => (first(b)?.estimate.value ?? -1) - (first(a)?.estimate.value ?? -1),
};
const first = (one) => one.pass_at_k?.[0];
const pass = (it) => (it ? `pass@${it.k} ${interval(it.estimate)}` : "");

export async function evaluations({ host, query, signal }) {
  const compare = el("div"),
    all = el("div");
  let offered;
  const start = section("Start an evaluation");
  const filter = filters("evaluations", query, {
    kinds: ["queued", "running", "succeeded", "failed", "cancelled"],
    texts: { model: "Of model", problems: "On problems" },
    orders: ORDERS,
    changed: () => refresh(all),
  });
  host.append(filter.node, all, section("Compare two", compare), start);
  later(start, () => evaluationForm(signal));
  await live(
    all,
    signal,
    async () => filter.sorted(await list("evaluations", "evaluations", { signal, limit: 200, query: filter.query })),
    (found) => {
      filter.node.hidden = !found.length && !filter.any;
      const done = found.filter((one) => one.state === DONE);
      if (done.length !== offered) compare.replaceChildren(compareForm(done)); // else somebody may be choosing in it
      offered = done.length;
      return table(
        ["evaluation", "state", "model", "problems", "judged", "score", "took", "made"],
        found.map((one) => [
          evaluationLink(one.id),
          el(
            "td",
            {},
            state(one.state),
            one.failure && el("div", { class: "note" }, one.failure.message),
            one.waits_for && el("div", { class: "note" }, `waits for ${one.waits_for}`),
          ),
          measured(one),
          sets(one),
          bar(Number(one.samples_done), Number(one.samples_total)),
          number(pass(first(one))),
          number(between(one.start_time, one.end_time)),
          number(ago(one.create_time)),
        ]),
        {
          caption: "Evaluations",
          cut: found.cut,
          all: "ratchet evaluations list --limit 0",
          empty: filter.any
            ? el("p", { class: "note" }, "No evaluation is like that.")
            : empty("There is no evaluation yet. Measure a version:", START),
        },
      );
    },
  );
}

function compareForm(found) {
  if (found.length < 2) return empty("You need two that succeeded on the same problems.", START);
  const options = found.map((one) => [one.id, titled(one)]);
  return form({
    action: "Compare",
    fields: [
      field("Baseline", select("baseline", options, found[1].id)),
      field("Candidate", select("candidate", options, found[0].id)),
    ],
    act: (data) => void (location.hash = `#/${to("compare", data.get("baseline"), data.get("candidate"))}`),
  });
}

export async function comparison({ host, parts: [baseline_id, candidate_id], signal }) {
  host.append(el("p", { class: "note" }, "Compared, problem by problem …"));
  const both = await Promise.all([baseline_id, candidate_id].map((id) => get(to("evaluations", id), {}, signal)));
  const [before, after] = both.map(({ evaluation: one }) => one);
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
    facts([
      ["baseline", el("span", {}, evaluationLink(before.id), ` ${measured(before)} on ${sets(before)}`)],
      ["candidate", el("span", {}, evaluationLink(after.id), ` ${measured(after)} on ${sets(after)}`)],
    ]),
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
    el(
      "div",
      {},
      benchmarks.map(
        (one) =>
          one.unsolved.length > 0 &&
          section(`Solved before, not any more: ${one.name}`, el("p", {}, one.unsolved.join(", "))),
      ),
    ),
  );
}

export async function evaluation({ host, parts: [id], signal }) {
  const about = el("div"),
    samples = el("div");
  const can = actions(
    id,
    ACTIONS,
    async (name) => {
      if (name === "cancel") await post(to("evaluations", id, name));
      else await remove(to("evaluations", id));
      if (name === "delete") location.hash = "#/evaluations";
      else refresh(about);
    },
    Object.keys(ACTIONS),
  );
  host.append(about, can.node, section("Samples", samples));
  browse(samples, id, signal);
  await live(
    about,
    signal,
    () => get(to("evaluations", id), {}, signal),
    ({ evaluation: one }) => [
      can.show(one.state),
      facts([
        ["state", state(one.state)],
        ["waits for", one.waits_for],
        ["notices", one.notices.join(" ")],
        ["model", measured(one)],
        ["made", clock(one.create_time)],
        ["problems", sets(one)],
        [
          "references tried",
          one.references_done < one.references_total ? bar(one.references_done, one.references_total) : null,
        ],
        ["judged", bar(Number(one.samples_done), Number(one.samples_total))],
        ["weights", hash(one.policy_id)],
        ["temperature", short(one.spec.temperature)],
        ["took", between(one.start_time, one.end_time)],
        ["used", used(one.usage)],
        ["cost", cost(one.usage)],
        ["forgeable passes", Number(one.forgeable_passes) || ""],
      ]),
      one.failure && problem({ message: one.failure.message }),
      scores(one),
      Object.keys(one.verdicts).length > 0 &&
        section(
          "Outcomes of the samples",
          table(
            ["verdict", "samples"],
            Object.entries(one.verdicts)
              .sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b))
              .map(([name, many]) => [word(name, ""), number(count(many))]),
            { caption: "Verdicts" },
          ),
        ),
    ],
  );
}

function scores(one) {
  const rows = one.benchmarks.flatMap((set) =>
    set.pass_at_k.map((it) => ({
      ...it.estimate,
      label: `${set.problems.name}, pass@${it.k}`,
      text: interval(it.estimate),
    })),
  );
  if (one.benchmarks.length > 1)
    rows.unshift(
      ...one.pass_at_k.map((it) => ({
        ...it.estimate,
        label: `whole score, pass@${it.k}`,
        text: interval(it.estimate),
      })),
    );
  return rows.length
    ? section("Score, with its 95 % interval", intervals(rows, { label: "pass@k", from: 0, to: 1 }))
    : el("p", { class: "note" }, "No problem is judged yet.");
}

function browse(host, id, signal) {
  const chosen = verdicts();
  const list = pages(
    (token) =>
      get(to("evaluations", id, "samples"), { page_size: 20, page_token: token, verdict: chosen.value }, signal),
    sample,
    "This sample does not exist.",
  );
  chosen.addEventListener("change", list.again);
  host.append(field("Verdict", chosen), list.node);
  list.again();
}
