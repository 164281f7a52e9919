// What runs, what it serves, and where to begin.

import { get, list } from "../api.js";
import { el, empty, number, section, table, words } from "../dom.js";
import { ago, seconds, span, word } from "../format.js";
import { live } from "../live.js";
import { evaluationLink, hash, modelLink, releaseLink, runLink, state, versionLink } from "./parts.js";

const BEGIN = ["ratchet models add my-model /path/to/hf-folder", "ratchet train --model starter --algorithm grpo"];

export async function health({ host, signal }) {
  const services = el("div"),
    nodes = el("div"),
    engines = el("div"),
    failures = el("div"),
    models = el("div");
  host.append(
    section("Services", services),
    section("Failed in the last 7 days", failures),
    section("Rollout nodes", nodes),
    section("Engines", engines),
    section("Models", models),
  );
  await Promise.all([
    live(services, signal, () => get("platform", {}, signal).then((found) => found.services), drawServices),
    live(failures, signal, () => get("failures", {}, signal), drawFailures, 15),
    live(nodes, signal, () => list("nodes", "nodes", { signal }), drawNodes),
    live(engines, signal, () => list("policies", "policies", { signal }), drawEngines),
    live(
      models,
      signal,
      () => list("models", "models", { signal }),
      (found) =>
        table(
          ["model", "champion", "aliases", "versions"],
          found.map((one) => [
            modelLink(one.name),
            one.aliases.champion ? `@${one.aliases.champion}` : "none yet",
            aliases(one),
            number(one.latest_version),
          ]),
          {
            caption: "Models",
            empty: empty(
              "There is no model yet. Register one, or train the one that comes with the project:",
              ...BEGIN,
            ),
          },
        ),
      10,
    ),
  ]);
}

export const aliases = (one) =>
  Object.entries(one.aliases)
    .map(([name, to]) => `${name} → ${to}`)
    .join(", ");

const drawServices = (found) =>
  table(
    ["service", "state", "answers in", ""],
    found.map((one) => [
      one.name,
      state(one.state),
      number(one.latency == null ? "" : span(seconds(one.latency))),
      one.detail,
    ]),
    { caption: "Services" },
  );

const LINKS = { run: runLink, evaluation: evaluationLink, release: releaseLink };

const drawFailures = ({ failures, missing }) => [
  table(
    ["", "what", "name", "reason", "when"],
    failures.map((one) => {
      const kind = word(one.resource, "RESOURCE_");
      const [model, place] = one.id.split("@");
      return [
        kind,
        LINKS[kind]?.(one.id) ?? versionLink({ model, number: Number(place) }),
        one.name,
        words(one.message),
        number(ago(one.end_time)),
      ];
    }),
    { caption: "Failed lately", empty: missing.length ? el("div") : el("p", { class: "note" }, "Nothing failed.") },
  ),
  missing.length > 0 &&
    el("p", { class: "note" }, `${missing.join(", ")}: no answer, so what failed there is not shown.`),
];

const drawNodes = (found) =>
  table(
    ["address", "state", "policies", "of", "completions under way", ""],
    found.map((one) => [
      one.address,
      state(one.state),
      one.engines.map((engine) => engine.policy).join(", "),
      number(one.capacity),
      number(one.engines.reduce((sum, engine) => sum + engine.sequences, 0)),
      one.detail,
    ]),
    { caption: "Rollout nodes", empty: empty("No rollout node is known.") },
  );

const drawEngines = (found) =>
  table(
    ["policy", "state", "weights", "computes in", "context", "loaded", "weights replaced", ""],
    found.map((one) => [
      one.name,
      state(one.state),
      hash(one.policy_id),
      word(one.dtype, "DTYPE_").replace("unspecified", ""),
      number(one.max_model_len ? `${one.max_model_len} tokens` : ""),
      ago(one.ready_time),
      number(Number(one.weight_updates) || ""),
      one.failure?.message ?? "",
    ]),
    {
      caption: "Engines",
      empty: empty("No engine is loaded. A version is loaded at its first request, evaluation or release."),
    },
  );
