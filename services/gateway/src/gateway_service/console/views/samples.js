// Samples of evaluations and of training runs: what models wrote, and what its tests said of it.

import { get } from "../api.js";
import { button, el, facts, problem, table, words } from "../dom.js";
import { seconds, short, span, word } from "../format.js";
import { field, numeric, select } from "../forms.js";
import { episode, trained } from "./episode.js";
import { hash, link, state, to } from "./parts.js";

// In the order of the protos.
export const ORDER = [
  "PASSED",
  "FAILED",
  "RUNTIME_ERROR",
  "COMPILE_ERROR",
  "TIME_LIMIT",
  "MEMORY_LIMIT",
  "OUTPUT_LIMIT",
  "TAMPERED",
];
const VERDICTS = ["", ...ORDER].map((name) => [name && `VERDICT_${name}`, word(name, "") || "all"]);

export const verdicts = (chosen) => select("verdict", VERDICTS, chosen);

// A page of samples at a time: some lists have a hundred thousand. `find(token)` gives { samples, next_page_token }; `again`
// begins anew, and what an earlier beginning finds late is not shown.
export function pages(find, draw, none) {
  const shown = el("div"),
    more = button("More", () => page(current));
  let token = "",
    current;
  async function page(mine) {
    more.disabled = true;
    try {
      const found = await find(token);
      if (mine !== current) return;
      if (!token) shown.replaceChildren();
      token = found.next_page_token;
      shown.append(...found.samples.map(draw));
      if (!shown.childElementCount) shown.append(el("p", { class: "note" }, none));
      more.hidden = !token;
    } catch (error) {
      if (mine === current) shown.append(problem(error));
    }
    more.disabled = false;
  }
  return { node: el("div", {}, shown, more), again: () => ((token = ""), page((current = {}))) };
}

// Those of a training run. All that is chosen is in the address.
export async function ofTraining({ host, id, sample, query, signal }) {
  if (sample) {
    const found = await get(to("runs", id, "samples", sample), {}, signal);
    host.append(training(id)(found.sample));
    host.querySelector("details").open = true;
    return;
  }
  const form = el(
    "form",
    { class: "fields", onsubmit: (event) => event.preventDefault() },
    field("Step", numeric("step", query.get("step") ?? "", { placeholder: "all, the newest first" })),
    field("Problem", el("input", { name: "problem_id", value: query.get("problem_id") ?? "", spellcheck: "false" })),
    field("Verdict", verdicts(query.get("verdict"))),
    field("Reward below", el("input", { name: "below", type: "number", step: "any", value: query.get("below") ?? "" })),
  );
  const chosen = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  const list = pages(
    (token) => get(to("runs", id, "samples"), { page_size: 20, page_token: token, ...chosen() }, signal),
    training(id),
    "No such sample is kept.",
  );
  form.addEventListener("change", () => {
    const search = new URLSearchParams(chosen()).toString();
    history.replaceState(null, "", `#/${to("runs", id, "samples")}${search && `?${search}`}`);
    list.again();
  });
  host.append(form, el("p", { class: "note" }, "The newest step first, and of a step the lowest reward."), list.node);
  await list.again();
}

const pairs = (components) =>
  Object.entries(components)
    .map(([name, value]) => `${name} ${short(value)}`)
    .join(", ");

function reason(one) {
  const [test] = one.failed_tests;
  const said = test
    ? `${test.test}: ${test.error || test.got || "nothing"}${test.expected && `, not ${test.expected}`}`
    : "";
  const more = one.held_out_failed > 0 ? `held-out tests failed: ${one.held_out_failed}` : "";
  return [said || one.detail, more, one.truncated && "cut off"].filter(Boolean).join("; ");
}

const training = (run) => (one) =>
  el(
    "details",
    { class: "sample" },
    el(
      "summary",
      {},
      `step ${one.step} `,
      one.verdict === "VERDICT_UNSPECIFIED" ? "" : state(one.verdict, "VERDICT_"),
      ` reward ${short(one.reward)} (${pairs(one.components)}) `,
      el("span", { class: "soft" }, one.problem_id),
      el("div", { class: "note" }, reason(one)),
    ),
    facts([
      ["sample", link(to("runs", run, "samples", one.id), one.id)],
      ["problem", problemLink(run, one.problem_id)],
      ["tests", `${one.tests_passed} of ${one.tests_total}`],
      ["advantage", one.advantage == null ? "none: nothing was learned from it" : short(one.advantage)],
      ["tokens", `${one.tokens}${one.truncated ? ", cut off" : ""}`],
      ["answers", one.turns > 1 ? one.turns : ""],
      [
        "weights",
        one.spans.length > 1
          ? one.spans.map((span) => el("div", {}, hash(span.policy_id), ` ${span.tokens} tokens`))
          : hash(one.policy_id),
      ],
      ["updates since", one.staleness || ""],
      ["attempt", one.attempt > 1 ? one.attempt : ""],
    ]),
    one.failed_tests.length > 0 && one.detail && el("p", { class: "note" }, one.detail),
    failed(one),
    one.recorded && trained(run, one),
    el("h3", {}, "Completion"),
    el("pre", {}, el("code", {}, one.completion)),
    one.stderr && [el("h3", {}, "Stderr"), el("pre", {}, el("code", {}, one.stderr))],
    el("h3", {}, "Prompt"),
    el("pre", {}, el("code", {}, one.prompt)),
  );

function problemLink(run, id) {
  return link(`${to("runs", run, "samples")}?problem_id=${encodeURIComponent(id)}`, id);
}

const failed = (one) => [
  one.failed_tests.length > 0 &&
    table(
      ["failed test", "expected", "got"],
      one.failed_tests.map((test) => [words(test.test), words(test.expected), words(test.error || test.got)]),
      { caption: "Failed tests" },
    ),
  one.held_out_failed > 0 && el("p", { class: "note" }, `Held-out tests that failed: ${one.held_out_failed}.`),
];

// One of an evaluation, named by its id.
export const measured = (one, evaluation) =>
  el(
    "details",
    {},
    el(
      "summary",
      {},
      one.problem_id,
      ` #${one.index} `,
      state(one.verdict, "VERDICT_"),
      one.recorded ? played(one) : ` ${one.tests_passed} of ${one.tests_total} tests`,
    ),
    one.detail && el("p", { class: "note" }, one.detail),
    failed(one),
    one.recorded ? episode(evaluation, one) : el("pre", {}, el("code", {}, one.completion)),
  );

const played = ({ turns, tool_errors, generation_time }) =>
  ` answers: ${turns}${tool_errors ? `, errors of tools: ${tool_errors}` : ""}, ${span(seconds(generation_time))}`;

// Its problem, as it was put to the model.
export async function problemOf(evaluation, { problem_id, benchmark }, signal) {
  const { prompt, tests, held_out_tests } = await get(
    to("evaluations", evaluation, "problem"),
    { problem_id, benchmark },
    signal,
  );
  return el(
    "div",
    {},
    el("h3", {}, "Prompt"),
    el("pre", {}, el("code", {}, prompt)),
    el(
      "details",
      {},
      el("summary", {}, `Tests: ${tests.length}${held_out_tests ? ` and ${held_out_tests} held out` : ""}`),
      table(
        ["test", "expected"],
        tests.map((one) => [words(one.test), words(one.expected)]),
        { caption: "Tests" },
      ),
    ),
  );
}
