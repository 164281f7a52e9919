// Releases, and a form to start one.

import { list, post } from "../api.js";
import { el, empty, number, section, table, words } from "../dom.js";
import { ago, version } from "../format.js";
import { field, form, numeric, select } from "../forms.js";
import { later, live } from "../live.js";
import { link, state, to, versionLink } from "./parts.js";

export async function releases({ host, query, signal }) {
  const model = query.get("model") ?? "";
  const all = el("div");
  const start = section("Start a release");
  host.append(all, start);
  later(start, () => startForm(signal, model));
  await live(
    all,
    signal,
    () => list("releases", "releases", { query: { model }, signal, limit: 100 }),
    (found) =>
      table(
        ["release", "state", "candidate", "baseline", "traffic", "waits for", "started"],
        found.map((one) => [
          link(to("releases", one.id), one.id),
          state(one.state),
          versionLink(one.spec.candidate),
          versionLink(one.baseline),
          number(`${one.percent} %`),
          words(one.failure?.message ?? one.waits_for),
          number(ago(one.create_time)),
        ]),
        {
          caption: "Releases",
          cut: found.cut,
          all: "ratchet releases list --limit 0",
          empty: empty(
            "There is no release yet. You need a candidate that passed a gate against the champion:",
            "ratchet gate --model starter@2",
            "ratchet deploy --model starter@2",
          ),
        },
      ),
  );
}

async function startForm(signal, model) {
  const models = (await list("models", "models", { signal })).filter((one) => !model || one.name === model);
  const gates = (
    await Promise.all(models.map((one) => list(to("models", one.name, "gates"), "gates", { signal })))
  ).flat();
  const champion = Object.fromEntries(models.map((one) => [one.name, one.aliases.champion]));
  const open = gates.filter(
    (one) => one.state === "STATE_PASSED" && one.champion.number === champion[one.champion.model],
  );
  if (!open.length)
    return empty(
      "No version has passed a gate against the present champion. A gate compares two evaluations of the same problems:",
      "ratchet gate --model starter@2",
    );
  return form({
    action: "Start the release",
    fields: [
      field(
        "Candidate",
        select(
          "gate",
          open.map((one) => [one.id, `${version(one.candidate)} over ${version(one.champion)}: ${one.reason}`]),
        ),
      ),
      field(
        "Stages, percent of traffic",
        el("input", {
          name: "stages",
          "data-of": "spec.stages",
          value: "1, 5, 25, 50, 100",
          pattern: "\\s*\\d+(\\s*,\\s*\\d+)*\\s*",
          required: true,
        }),
      ),
      field("Minimum minutes of a stage", numeric("minutes", "5", { step: "any", required: true })),
      field("Minimum answers of a stage", numeric("samples", "50", { required: true })),
      field("Minimum scored answers so far", numeric("scored", "0", { required: true })),
      field(
        "If traffic does not show that the bounds hold",
        select("unproven", [
          ["UNPROVEN_HOLD", "wait until it does"],
          ["UNPROVEN_PROCEED", "proceed, unless a bound looks broken"],
        ]),
      ),
      field(
        "Percent that stays with the present champion until the watch ends",
        numeric("kept", "5", { required: true, "data-of": "spec.baseline_percent" }),
      ),
      field(
        "Minutes of watching after the promotion",
        numeric("watch", "60", { step: "any", required: true, "data-of": "spec.watch" }),
      ),
    ],
    async act(data, request_id) {
      const gate = open.find((one) => one.id === data.get("gate"));
      const stage = (percent) => ({
        percent,
        min_duration: `${60 * Number(data.get("minutes"))}s`,
        min_samples: Number(data.get("samples")),
        min_scored: Number(data.get("scored")),
      });
      const spec = {
        candidate: gate.candidate,
        gate_id: gate.id,
        stages: data
          .get("stages")
          .split(",")
          .map((text) => stage(Number(text))),
        unproven: data.get("unproven"),
        watch: `${60 * Number(data.get("watch"))}s`,
        baseline_percent: Number(data.get("kept")),
      };
      const { release: made } = await post("releases", { request_id, spec });
      location.hash = `#/${to("releases", made.id)}`;
    },
  });
}
