// Models, their versions with where each is from, and where their aliases pointed when.

import { get, list } from "../api.js";
import { el, empty, facts, number, problem, section, table } from "../dom.js";
import { ago, clock, cost, count, model as nameOf, seconds, signed, span, together, word } from "../format.js";
import { later, live } from "../live.js";
import { aliases } from "./health.js";
import { hash, link, modelLink, runLink, state, to, versionLink } from "./parts.js";

const ADD = "ratchet models add my-model /path/to/hf-folder";

export async function models({ host, signal }) {
  await live(
    host,
    signal,
    () => list("models", "models", { signal }),
    (found) =>
      table(
        ["model", "champion", "aliases", "versions", "", "made"],
        found.map((one) => [
          modelLink(one.name),
          one.aliases.champion ? `@${one.aliases.champion}` : "none yet",
          aliases(one),
          number(`${one.latest_version}${one.failed_versions ? ` (${one.failed_versions} failed)` : ""}`),
          one.description,
          number(ago(one.create_time)),
        ]),
        { caption: "Models", empty: empty("There is no model yet. Register one:", ADD) },
      ),
  );
}

export async function model({ host, parts: [name, which], signal }) {
  if (which) return version({ host, name, which, signal });
  const about = el("div"),
    versions = el("div"),
    gates = el("div"),
    history = el("div");
  host.append(about, section("Versions", versions), section("Gates", gates), section("Changes of aliases", history));
  await Promise.all([
    live(
      about,
      signal,
      () => get(to("models", name), {}, signal),
      ({ model: one }) =>
        facts([
          ["champion", one.aliases.champion ? `${name}@${one.aliases.champion}` : "none yet"],
          ["aliases", aliases(one)],
          ["description", one.description],
          ["", link(`releases?model=${encodeURIComponent(name)}`, "Releases")],
          ["", link(`experiments?model=${encodeURIComponent(name)}`, "Experiments")],
        ]),
    ),
    live(versions, signal, () => list(to("models", name, "versions"), "versions", { signal }), drawVersions),
    live(gates, signal, () => list(to("models", name, "gates"), "gates", { signal }), drawGates),
    live(
      history,
      signal,
      () => list(to("models", name, "alias-history"), "changes", { signal }),
      (found) =>
        table(
          ["when", "alias", "from", "to", "reason", "gate", "by key"],
          found.map((one) => [
            number(clock(one.create_time)),
            one.alias,
            number(one.from_number || "–"),
            number(one.to_number),
            one.reason,
            one.gate_id,
            one.actor,
          ]),
          { caption: "History of aliases", empty: empty("No alias was set yet.", `ratchet models promote ${name}@1`) },
        ),
    ),
  ]);
}

// A version's traffic of a week. Its days are added up at each look, so looks are seldom.
async function version({ host, name, which, signal }) {
  const path = to("models", name, "versions", which, "health");
  host.append(modelLink(name));
  await live(host, signal, () => get(path, {}, signal), drawHealth, 60);
}

const drawHealth = ({ days, notices, answers, usage }) => [
  cost(usage) && el("p", { class: "note" }, `${count(answers)} answers cost ${cost(usage, null, Number(answers))}.`),
  notices.length > 0 &&
    problem({ message: "Worse than before, by more than a release allows:", violations: notices.map(worse) }),
  table(
    ["day, UTC", "arm", "requests", "errors", "left", "p50", "p95", "tokens", "scored", "mean score"],
    days.map((one) => [
      number(one.start_time.slice(0, 10)),
      word(one.arm, "ARM_"),
      number(count(one.requests)),
      number(count(one.errors)),
      number(count(one.left)),
      number(one.latency_p50 ? span(seconds(one.latency_p50)) : ""),
      number(one.latency_p95 ? span(seconds(one.latency_p95)) : ""),
      number(count(Number(one.prompt_tokens) + Number(one.completion_tokens))),
      number(count(one.scored)),
      number(one.scored > 0 ? one.mean_score.toFixed(3) : ""),
    ]),
    { caption: "Traffic by day and arm", empty: empty("Nobody has asked this version for a week.") },
  ),
];

const worse = ({ message }) => ({ field: "", description: message });

const drawVersions = (found) => {
  const byNumber = new Map(found.map((one) => [one.ref.number, one]));
  return table(
    ["version", "state", "made of", "by", "step", "labels", "weights", "made"],
    found.map((one) => [
      el("strong", {}, link(to("models", one.ref.model, one.ref.number), `@${one.ref.number}`)),
      el("td", {}, state(one.state), one.failure && el("div", { class: "note" }, one.failure.message)),
      lineage(one, byNumber),
      runLink(one.lineage?.run_id),
      number(one.lineage?.step || ""),
      Object.entries(one.labels)
        .map(([key, value]) => `${key}: ${value}`)
        .join(", "),
      hash(one.policy_id),
      ago(one.create_time),
    ]),
    { caption: "Versions", empty: empty("No version is registered yet.") },
  );
};

// What it was made of, and what that was made of: "starter@2 ← starter@1 ← /path".
function lineage(one, byNumber) {
  const chain = [];
  for (let ref = one.lineage?.base; ref && chain.length < 20;) {
    chain.push(ref.version?.number ? versionLink(ref.version) : nameOf(ref));
    const own = ref.version?.model === one.ref.model && byNumber.get(ref.version.number);
    ref = own ? own.lineage?.base : null;
  }
  if (!chain.length) return "";
  return el(
    "span",
    {},
    chain.flatMap((base, place) => (place ? [" ← ", base] : [base])),
  );
}

const side = (ref, id) =>
  el("td", {}, versionLink(ref), id && el("div", { class: "note" }, link(to("evaluations", id), "evaluation")));

// What it was decided by: the candidate's run and both evaluations.
function costOf(gate) {
  const node = el("details", {}, el("summary", {}, "Cost"));
  node.addEventListener("toggle", () => later(node, async () => el("p", { class: "note" }, await gateCost(gate))), {
    once: true,
  });
  return node;
}

async function gateCost(gate) {
  const ids = [gate.champion_evaluation_id, gate.candidate_evaluation_id];
  const [made, ...measured] = await Promise.all([
    get(to("models", gate.candidate.model, "versions", gate.candidate.number)),
    ...ids.map((id) => get(to("evaluations", id))),
  ]);
  const run = made.version.lineage?.run_id;
  const trained = run ? [(await get(to("runs", run))).run] : [];
  const usages = [...measured.map(({ evaluation }) => evaluation), ...trained].map(({ usage }) => usage);
  return together(usages, gate.comparison.difference?.value ?? 0) || "Not known: the operator has set no prices.";
}

const drawGates = (found) =>
  table(
    ["gate", "candidate", "against", "difference in pass@1", "reason", "made"],
    found.map((one) => [
      el("td", {}, state(one.state), el("div", { class: "note" }, one.id)),
      side(one.candidate, one.candidate_evaluation_id),
      side(one.champion, one.champion_evaluation_id),
      number(
        one.comparison?.difference
          ? `${signed(one.comparison.difference.value)} [${signed(one.comparison.difference.low)}, ${signed(one.comparison.difference.high)}]`
          : "",
      ),
      el("td", { class: "text" }, one.failure?.message ?? one.reason, one.comparison && costOf(one)),
      number(ago(one.create_time)),
    ]),
    {
      caption: "Gates",
      empty: empty(
        "There is no gate yet. A version can be promoted and released once it has passed one:",
        "ratchet gate --model NAME@NUMBER",
      ),
    },
  );
