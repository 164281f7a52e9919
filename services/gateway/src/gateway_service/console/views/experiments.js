// Experiments, and a form to start one.

import { list, post, requestId } from "../api.js";
import { el, empty, number, section, table } from "../dom.js";
import { ago, between, metricName, version, word } from "../format.js";
import { field, form, select } from "../forms.js";
import { later, live } from "../live.js";
import { link, state, to } from "./parts.js";

const MEASURES = ["QUALITY", "FEEDBACK", "TESTS", "ERROR_RATE", "LATENCY", "LATENCY_P95", "TOKENS"].map((name) => [
  `MEASURE_${name}`,
  word(name, ""),
]);
const UNITS = [
  ["UNIT_USER", "user"],
  ["UNIT_SESSION", "session"],
  ["UNIT_KEY", "API key"],
  ["UNIT_REQUEST", "request"],
];
const EXAMPLE =
  "ratchet experiments create --variant control=starter@1 --variant treatment=starter@2 --metric quality:0.02 --start";

export async function experiments({ host, query, signal }) {
  const model = query.get("model") ?? "";
  const all = el("div");
  const start = section("Start an experiment");
  host.append(all, start);
  later(start, startForm(signal, model));
  await live(
    all,
    signal,
    () => list("experiments", "experiments", { query: { model }, signal, limit: 100 }),
    (found) =>
      table(
        ["experiment", "state", "variants", "primary metric", "conclusion", "lasted", "made"],
        found.map((one) => [
          el(
            "td",
            {},
            link(to("experiments", one.id), one.id),
            one.spec.description && el("div", { class: "note" }, one.spec.description),
          ),
          state(one.state),
          one.spec.variants.map((it) => `${it.name} ${version(it.version)}`).join(", "),
          metricName(one.spec.primary),
          one.report?.conclusion ?? "",
          number(between(one.start_time, one.end_time)),
          number(ago(one.create_time)),
        ]),
        {
          caption: "Experiments",
          empty: empty(
            "There is no experiment yet. It puts two versions side by side on live traffic, and needs no gate:",
            EXAMPLE,
          ),
        },
      ),
  );
}

async function startForm(signal, model) {
  const models = (await list("models", "models", { signal })).filter((one) => !model || one.name === model);
  const versions = (
    await Promise.all(models.map((one) => list(to("models", one.name, "versions"), "versions", { signal })))
  )
    .flat()
    .filter((one) => one.state === "STATE_READY");
  const pairable = versions.filter((one) =>
    versions.some((other) => other !== one && other.ref.model === one.ref.model),
  );
  if (!pairable.length)
    return empty(
      "It takes two versions of one model that are ready. Train one, or register one:",
      "ratchet train --model starter --algorithm grpo",
      "ratchet models add starter /path/to/hf-folder",
    );
  const names = pairable.map((one) => version(one.ref)).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const ref = (name) => pairable.find((one) => version(one.ref) === name).ref;
  return form({
    action: "Start the experiment",
    fields: [
      field(
        "Control",
        select(
          "control",
          names.map((name) => [name]),
          names[0],
        ),
      ),
      field(
        "Treatment",
        select(
          "treatment",
          names.map((name) => [name]),
          names.find((name) => name !== names[0]),
        ),
      ),
      field("Primary metric", select("measure", MEASURES)),
      field(
        "Smallest difference worth waiting for",
        el("input", { name: "margin", type: "number", min: "0", step: "any", value: "0.02", required: true }),
      ),
      field("Guardrail", select("guardrail", [["", "none"], ...MEASURES], "MEASURE_ERROR_RATE")),
      field("What stays with a variant", select("unit", UNITS)),
      field(
        "Least hours",
        el("input", { name: "hours", type: "number", min: "0", step: "any", value: "24", required: true }),
      ),
      field(
        "Least units of each variant",
        el("input", { name: "units", type: "number", min: "0", value: "100", required: true }),
      ),
      field("Description", el("input", { name: "description", maxlength: "200", autocomplete: "off" })),
    ],
    async act(data) {
      const [primary, guardrail] = [data.get("measure"), data.get("guardrail")];
      const spec = {
        variants: [
          { name: "control", version: ref(data.get("control")) },
          { name: "treatment", version: ref(data.get("treatment")) },
        ],
        primary: { measure: primary, margin: Number(data.get("margin")) },
        guardrails: guardrail && guardrail !== primary ? [{ measure: guardrail }] : [],
        unit: data.get("unit"),
        min_duration: `${3600 * Number(data.get("hours"))}s`,
        min_units: data.get("units"),
        description: data.get("description"),
      };
      const { experiment: made } = await post("experiments", { request_id: requestId(), spec });
      await post(to("experiments", made.id, "start"));
      location.hash = `#/${to("experiments", made.id)}`;
    },
  });
}
