// Evaluations, and what is in one.

import { get, list, post, remove } from "../api.js";
import { el, empty, facts, number, problem, section, table } from "../dom.js";
import {
  ago,
  between,
  clock,
  cost,
  count,
  expected,
  interval,
  model,
  seconds,
  short,
  span,
  used,
  version,
  word,
} from "../format.js";
import { field } from "../forms.js";
import { later, live, refresh } from "../live.js";
import { filters } from "./filters.js";
import { evaluationForm } from "./evaluation_form.js";
import { actions, bar, evaluationLink, hash, intervals, link, state, to } from "./parts.js";
import { ORDER, measured as sample, pages, problemOf, verdicts } from "./samples.js";

const START = "ratchet evaluate --model starter --benchmark composed/test";
const DONE = "STATE_SUCCEEDED";
const HOW = "Tick two that succeeded on the same problems to compare them: the baseline first.";
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
  "by name": (a, b) => a.spec.display_name.localeCompare(b.spec.display_name),
  "by score": (a, b) => (first(b)?.estimate.value ?? -1) - (first(a)?.estimate.value ?? -1),
};
const first = (one) => one.pass_at_k?.[0];
const pass = (it) => (it ? `pass@${it.k} ${interval(it.estimate)}` : "");

export async function evaluations({ host, query, signal }) {
  const chosen = new Set((query.get("compare") ?? "").split(",").filter(Boolean).slice(0, 2));
  const said = el("p", { class: "note", "aria-live": "polite" });
  const all = el("div"),
    start = section("Start an evaluation");
  const filter = filters("evaluations", query, {
    kinds: ["queued", "running", "succeeded", "failed", "cancelled"],
    texts: { name: "Named", model: "Of model", problems: "On problems" },
    orders: ORDERS,
    changed: () => refresh(all),
  });
  host.append(filter.node, said, all, start);
  later(start, () => evaluationForm(signal));

  function choose(id, input) {
    if (input.checked && chosen.size === 2) input.checked = false;
    else if (input.checked) chosen.add(id);
    else chosen.delete(id);
    filter.set("compare", [...chosen].join(","));
    tell();
  }

  function tell() {
    const [before, after] = chosen;
    said.replaceChildren(
      ...(after
        ? [link(to("compare", before, after), "Compare"), ` ${after} with ${before}, the baseline.`]
        : [before ? `Tick another to compare it with ${before}, the baseline.` : HOW]),
    );
  }

  tell();
  await live(
    all,
    signal,
    async () => filter.sorted(await list("evaluations", "evaluations", { signal, limit: 100, query: filter.query })),
    (found) => {
      filter.node.hidden = !found.length && !filter.any;
      said.hidden = !found.length;
      return table(
        ["", "evaluation", "state", "model", "problems", "judged", "score", "took", "made"],
        found.map((one) => [
          one.state === DONE &&
            el("input", {
              type: "checkbox",
              name: one.id,
              checked: chosen.has(one.id),
              "aria-label": `Compare ${one.id}`,
              onchange: (event) => choose(one.id, event.target),
            }),
          el(
            "td",
            {},
            evaluationLink(one.id),
            one.spec.display_name && el("div", { class: "note" }, one.spec.display_name),
          ),
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
        ["name", one.spec.display_name],
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
        ["forecast", expected(one.forecast)],
        ["used", used(one.usage)],
        ["cost", cost(one.usage, one.spec.budget, Number(one.samples_done))],
        ["forgeable passes", Number(one.forgeable_passes) || ""],
        ["an episode, on average", one.episodes ? means(one.episodes) : ""],
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

const means = ({ turns, tool_errors, tokens, time }) =>
  `${short(turns)} answers, ${short(tool_errors)} errors of tools, ${short(tokens)} tokens, ${span(seconds(time))}`;

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
    (one) => {
      const node = sample(one, id);
      node.addEventListener("toggle", () => later(node, () => problemOf(id, one, signal)), { once: true });
      return node;
    },
    "This sample does not exist.",
  );
  chosen.addEventListener("change", list.again);
  host.append(field("Verdict", chosen), list.node);
  list.again();
}
