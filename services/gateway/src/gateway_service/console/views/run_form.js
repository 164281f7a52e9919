// A form to start a training run, with the settings that most runs differ in. All others: `ratchet train`, or a file.

import { list, post } from "../api.js";
import { el, empty } from "../dom.js";
import { bytes, money, seconds, span, word } from "../format.js";
import { field, form, numeric, offered, onlyWhen, select } from "../forms.js";
import { catalogue, modelsOf, readyVersions } from "./choices.js";
import { to } from "./parts.js";

const DEFAULT = "Empty: the algorithm's default.";

export async function runForm(signal) {
  const [models, known] = await Promise.all([modelsOf(signal), catalogue(signal)]);
  const versions = await readyVersions(models, signal);
  if (!versions.length)
    return empty("You need a version to begin with. Register one:", "ratchet models add my-model /path/to/hf-folder");
  const own = await list("rewards", "rewards", { signal });
  const rewards = [...known.rewards, ...own.map((one) => `${one.name}@${one.number}`)];
  const algorithms = known.algorithms.map((one) => [one, word(one, "ALGORITHM_")]);
  const names = versions.map(({ name }) => [name]);
  const champion = models.find((one) => one.aliases.champion);
  const first = champion ? `${champion.name}@${champion.aliases.champion}` : names[0][0];
  const scores = (value) => value("algorithm") === "ALGORITHM_REWARD_MODEL";
  const answers = (value) => !scores(value);
  const onPairs = (value) => value("algorithm") === "ALGORITHM_DPO" || scores(value);
  const samples = (value) => value("algorithm") !== "ALGORITHM_SFT" && !onPairs(value);
  const optional = (name, of, attributes) =>
    numeric(name, "", { ...attributes, "data-of": `spec.hyperparameters.${of}` });
  return form({
    action: "Start the run",
    fields: [
      field("Base", select("base", names, first, { "data-of": "spec.base spec.output_model" })),
      field("Algorithm", select("algorithm", algorithms, "ALGORITHM_GRPO", { "data-of": "spec.algorithm" })),
      onlyWhen(
        samples,
        field(
          "Reward",
          offered("reward", "tests_passed", rewards, { required: true, "data-of": "spec.reward" }),
          "One of Ratchet's, or one of your own: name@number.",
        ),
      ),
      field("Steps", numeric("steps", "40", { min: "1", required: true, "data-of": "spec.steps" })),
      onlyWhen(
        (value) => !onPairs(value),
        field(
          "Problems",
          offered("problems", "composed/train", known.problem_sets, { required: true, "data-of": "spec.problems" }),
          "A named set, or the path of a file on the machine that trains.",
        ),
      ),
      onlyWhen(
        onPairs,
        field(
          "Pairs",
          el("input", { name: "pairs", required: true, autocomplete: "off", "data-of": "spec.pairs" }),
          "The path of a JSONL file on the machine that trains.",
        ),
      ),
      onlyWhen(
        answers,
        field(
          "Validated on",
          offered("validation", "", known.problem_sets, {
            "data-of": "spec.validation_problems.name spec.validation_problems",
          }),
          "Chooses the best checkpoint. Empty: the validation split of the same set, or none.",
        ),
      ),
      onlyWhen(
        answers,
        field(
          "Maximum number of these",
          numeric("limit", "", { min: "1", "data-of": "spec.validation_problems.limit" }),
          "Empty: all.",
        ),
      ),
      onlyWhen(
        answers,
        field(
          "Evaluated on",
          el("input", { name: "suite", autocomplete: "off", "data-of": "spec.validate.suite spec.validate" }),
          "In place of that set: mine/test=0.7, humaneval+=0.3. Checkpoints are evaluated on these, beside the run.",
        ),
      ),
      onlyWhen(
        answers,
        field(
          "Samples of a problem there",
          numeric("samples", "", { min: "1", "data-of": "spec.validate.samples" }),
          "Empty: 1.",
        ),
      ),
      onlyWhen(
        scores,
        field(
          "Held-out file",
          el("input", { name: "held_out", autocomplete: "off", "data-of": "spec.validation_pairs" }),
          "Path of another such file, which chooses the best checkpoint. Empty: the last checkpoint is taken.",
        ),
      ),
      onlyWhen(
        scores,
        field(
          "Model",
          el("input", { name: "judge", required: true, autocomplete: "off", "data-of": "spec.output_model" }),
          "Name of the result in the registry.",
        ),
      ),
      field(
        "Steps between validations",
        numeric("every", "10", { "data-of": "spec.validate_every" }),
        "Empty: at the end only.",
      ),
      field("Learning rate", optional("rate", "learning_rate", { step: "any" }), DEFAULT),
      field("Problems per step", optional("batch", "batch_size"), DEFAULT),
      onlyWhen(samples, field("Answers per problem", optional("group", "group_size"), DEFAULT)),
      field("Maximum tokens of an answer", optional("tokens", "max_response_tokens"), DEFAULT),
      field(
        "Name",
        el("input", { name: "name", maxlength: "100", autocomplete: "off", "data-of": "spec.display_name" }),
        "For people.",
      ),
    ],
    async check(data) {
      const { run } = await post("runs", { spec: spec(data, versions), validate_only: true });
      return forecast(run.forecast);
    },
    async act(data, request_id) {
      const { run } = await post("runs", { request_id, spec: spec(data, versions) });
      location.hash = `#/${to("runs", run.id)}`;
    },
  });
}

// "mine=0.7, humaneval+" -> the entries of a suite.
function suite(text) {
  const sets = text.split(",").map((one) => one.trim());
  return sets.filter(Boolean).map((one) => {
    const [, name, weight] = one.match(/^(.+)=([0-9.]+)$/) ?? [null, one];
    return { problems: { name }, weight: weight && Number(weight) };
  });
}

function spec(data, versions) {
  const { ref } = versions.find(({ name }) => name === data.get("base"));
  const set = (name) => (data.get(name) ? Number(data.get(name)) : undefined);
  return {
    display_name: data.get("name"),
    base: { version: ref },
    output_model: data.get("judge")?.trim() ?? ref.model,
    algorithm: data.get("algorithm"),
    reward: data.get("reward") ? { name: data.get("reward").trim() } : undefined,
    problems: data.has("problems") ? { name: data.get("problems").trim() } : undefined,
    pairs: data.has("pairs") ? { name: data.get("pairs").trim() } : undefined,
    validation_problems: data.get("validation")?.trim()
      ? { name: data.get("validation").trim(), limit: set("limit") }
      : undefined,
    validation_pairs: data.get("held_out")?.trim() ? { name: data.get("held_out").trim() } : undefined,
    validate: data.get("suite")?.trim() ? { suite: suite(data.get("suite")), samples: set("samples") } : undefined,
    steps: Number(data.get("steps")),
    validate_every: set("every"),
    hyperparameters: {
      learning_rate: set("rate"),
      batch_size: set("batch"),
      group_size: set("group"),
      max_response_tokens: set("tokens"),
    },
  };
}

// What is known before it begins: how long its longest step takes, and how much memory.
function forecast(found) {
  if (!found?.peak_bytes) return "";
  const time = found.step_time && `a step may take ${span(seconds(found.step_time))}`;
  const price = found.cost != null && `all steps ${money(found.cost, found.currency)} at most`;
  const memory = `its training ${bytes(found.peak_bytes)} of memory`;
  const room = found.limit_bytes && `; there are ${bytes(found.limit_bytes)}`;
  return el("p", { class: "note" }, ["Possible: ", [time, price, memory].filter(Boolean).join(", "), room, "."]);
}
