// A form to start an evaluation.

import { post } from "../api.js";
import { el, empty } from "../dom.js";
import { expected } from "../format.js";
import { field, form, numeric, offered, select } from "../forms.js";
import { catalogue, modelsOf, readyVersions } from "./choices.js";
import { to } from "./parts.js";

export async function evaluationForm(signal) {
  const [models, known] = await Promise.all([modelsOf(signal), catalogue(signal)]);
  const versions = await readyVersions(models, signal);
  if (!versions.length)
    return empty("You need a version that is ready. Register one:", "ratchet models add my-model /path/to/hf-folder");
  const names = versions.map(({ name }) => [name]);
  return form({
    action: "Start the evaluation",
    fields: [
      field(
        "Name",
        el("input", { name: "name", maxlength: "200", autocomplete: "off", "data-of": "spec.display_name" }),
      ),
      field("Version", select("version", names, names.at(-1), { "data-of": "spec.model" })),
      field(
        "Problems",
        offered("problems", "composed/test", [...known.problem_sets, ...known.benchmarks], {
          required: true,
          "data-of": "spec.problems.name spec.problems",
        }),
        "A named set, or the path of a file on the machine that evaluates.",
      ),
      field(
        "Maximum number of problems",
        numeric("limit", "", { min: "1", "data-of": "spec.problems.limit" }),
        "Empty: all.",
      ),
      field(
        "Samples per problem",
        numeric("samples", "1", { required: true, "data-of": "spec.samples_per_problem spec.k" }),
        "More than one: pass@k for that k, too.",
      ),
      field(
        "Temperature",
        numeric("temperature", "1", { step: "any", required: true, "data-of": "spec.temperature" }),
        "0: always the likeliest token.",
      ),
      field("Maximum tokens of an answer", numeric("tokens", "512", { required: true, "data-of": "spec.max_tokens" })),
    ],
    async check(data) {
      const { evaluation } = await post("evaluations", { spec: spec(data, versions), validate_only: true });
      const forecast = expected(evaluation.forecast) || "no evaluation of this model on this set in this way yet";
      return el("p", { class: "note" }, ["Possible. Forecast: ", forecast, "."]);
    },
    async act(data, request_id) {
      const { evaluation } = await post("evaluations", { request_id, spec: spec(data, versions) });
      location.hash = `#/${to("evaluations", evaluation.id)}`;
    },
  });
}

function spec(data, versions) {
  const samples = Number(data.get("samples"));
  return {
    display_name: data.get("name"),
    model: { version: versions.find(({ name }) => name === data.get("version")).ref },
    problems: { name: data.get("problems").trim(), ...(data.get("limit") && { limit: Number(data.get("limit")) }) },
    samples_per_problem: samples,
    k: samples > 1 ? [1, samples] : [1],
    temperature: Number(data.get("temperature")),
    max_tokens: Number(data.get("tokens")),
  };
}
