// A form to start an experiment: on live traffic, or offline over stored prompts.

import { post } from "../api.js";
import { el, empty } from "../dom.js";
import { word } from "../format.js";
import { field, form, numeric, onlyWhen, select } from "../forms.js";
import { catalogue, modelsOf, readyVersions } from "./choices.js";
import { to } from "./parts.js";

const DIRECTIONS = [
  ["DIRECTION_MORE_IS_BETTER", "more is better"],
  ["DIRECTION_LESS_IS_BETTER", "less is better"],
];
const UNITS = [
  ["UNIT_USER", "user"],
  ["UNIT_SESSION", "session"],
  ["UNIT_KEY", "API key"],
  ["UNIT_REQUEST", "request"],
];
const SOURCES = [
  ["live", "live traffic"],
  ["stored", "stored prompts, offline"],
];

export async function experimentForm(signal, model) {
  const [models, known] = await Promise.all([modelsOf(signal, model), catalogue(signal)]);
  const versions = await readyVersions(models, signal);
  const pairable = versions.filter((one) => versions.some((it) => it !== one && it.ref.model === one.ref.model));
  if (!pairable.length)
    return empty(
      "You need two versions of one model that are ready. Train one, or register one:",
      "ratchet train --model starter --algorithm grpo",
      "ratchet models add starter /path/to/hf-folder",
    );
  const names = pairable.map(({ name }) => [name]);
  return form({
    action: "Start the experiment",
    fields: [
      field("Control", select("control", names, names[0][0], { "data-of": "spec.variants[0] spec.variants" })),
      field("Treatment", select("treatment", names, names[1][0], { "data-of": "spec.variants[1]" })),
      field("Its requests are", select("source", SOURCES)),
      ...requests(),
      ...measured(known.measures.map((one) => [one, measureName(one)])),
      field(
        "Name",
        el("input", { name: "name", maxlength: "200", autocomplete: "off", "data-of": "spec.display_name" }),
      ),
      field(
        "Description",
        el("input", { name: "description", maxlength: "200", autocomplete: "off", "data-of": "spec.description" }),
      ),
    ],
    async act(data, request_id) {
      const { experiment } = await post("experiments", { request_id, spec: spec(data, pairable) });
      await post(to("experiments", experiment.id, "start"));
      location.hash = `#/${to("experiments", experiment.id)}`;
    },
  });
}

const measureName = (one) => (one === "MEASURE_NAMED" ? "one of your own, by name" : word(one, "MEASURE_"));
const live = (value) => value("source") === "live";
const stored = (value) => value("source") === "stored";
const uses = (measure) => (value) => [value("measure"), value("guardrail")].includes(measure);

// Where its requests come from, and how many it takes.
function requests() {
  return [
    onlyWhen(
      stored,
      field(
        "Number of latest prompts",
        numeric("latest", "200", { min: "1", required: true, "data-of": "spec.replay.latest spec.replay" }),
        "From the model's kept traffic, of keys that keep their traffic.",
      ),
    ),
    onlyWhen(
      stored,
      field(
        "Maximum tokens of an answer",
        numeric("tokens", "512", { min: "1", "data-of": "spec.replay.sampling.max_tokens" }),
      ),
    ),
    onlyWhen(
      stored,
      field(
        "Temperature",
        numeric("temperature", "1", { step: "any", required: true, "data-of": "spec.replay.sampling.temperature" }),
      ),
    ),
    onlyWhen(live, field("Unit that stays with a variant", select("unit", UNITS, "", { "data-of": "spec.unit" }))),
    onlyWhen(
      live,
      field("Minimum hours", numeric("hours", "24", { step: "any", required: true, "data-of": "spec.min_duration" })),
    ),
    onlyWhen(
      live,
      field("Minimum units of each variant", numeric("units", "100", { required: true, "data-of": "spec.min_units" })),
    ),
  ];
}

// What is compared.
function measured(measures) {
  return [
    field("Primary metric", select("measure", measures, "", { "data-of": "spec.primary.measure" })),
    field(
      "Smallest difference",
      numeric("margin", "0.02", { step: "any", required: true, "data-of": "spec.primary.margin" }),
      "The smallest that is worth waiting for, in the metric's own unit.",
    ),
    field(
      "Guardrail",
      select("guardrail", [["", "none"], ...measures], "MEASURE_ERROR_RATE", { "data-of": "spec.guardrails" }),
    ),
    onlyWhen(
      uses("MEASURE_NAMED"),
      field(
        "Name of your metric",
        el("input", { name: "named", required: true, autocomplete: "off", "data-of": "spec.primary.name" }),
        "Its name in the metrics of your application's feedback.",
      ),
    ),
    onlyWhen(
      uses("MEASURE_NAMED"),
      field("Of it", select("direction", DIRECTIONS, "", { "data-of": "spec.primary.direction" })),
    ),
    onlyWhen(
      uses("MEASURE_COST"),
      field(
        "Price of a million prompt tokens",
        numeric("prompt_price", "", {
          step: "any",
          required: true,
          "data-of": "spec.price.prompt_per_million spec.price",
        }),
        "In a currency of your own.",
      ),
    ),
    onlyWhen(
      uses("MEASURE_COST"),
      field(
        "Price of a million answer tokens",
        numeric("completion_price", "", {
          step: "any",
          required: true,
          "data-of": "spec.price.completion_per_million",
        }),
      ),
    ),
  ];
}

function spec(data, versions) {
  const ref = (name) => versions.find((one) => one.name === data.get(name)).ref;
  const metric = (measure) =>
    measure === "MEASURE_NAMED"
      ? { measure, name: data.get("named").trim(), direction: data.get("direction") }
      : { measure };
  const [primary, guardrail] = [data.get("measure"), data.get("guardrail")];
  const both = {
    variants: ["control", "treatment"].map((name) => ({ name, version: ref(name) })),
    primary: { ...metric(primary), margin: Number(data.get("margin")) },
    guardrails: guardrail && guardrail !== primary ? [metric(guardrail)] : [],
    display_name: data.get("name"),
    description: data.get("description"),
    price: data.has("prompt_price")
      ? {
          prompt_per_million: Number(data.get("prompt_price")),
          completion_per_million: Number(data.get("completion_price")),
        }
      : undefined,
  };
  if (data.get("source") === "live")
    return {
      ...both,
      unit: data.get("unit"),
      min_duration: `${3600 * Number(data.get("hours"))}s`,
      min_units: data.get("units"),
    };
  const sampling = {
    temperature: Number(data.get("temperature")),
    max_tokens: Number(data.get("tokens")) || undefined,
  };
  return { ...both, unit: "UNIT_REQUEST", replay: { latest: Number(data.get("latest")), sampling } };
}
