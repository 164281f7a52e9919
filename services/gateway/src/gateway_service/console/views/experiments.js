// Experiments.

import { list } from "../api.js";
import { el, empty, number, section, table, words } from "../dom.js";
import { ago, between, metricName, version } from "../format.js";
import { later, live } from "../live.js";
import { experimentForm } from "./experiment_form.js";
import { link, state, to } from "./parts.js";

const EXAMPLE =
  "ratchet experiments create --variant control=starter@1 --variant treatment=starter@2 --metric quality:0.02 --start";

export async function experiments({ host, query, signal }) {
  const model = query.get("model") ?? "";
  const all = el("div");
  const start = section("Start an experiment");
  host.append(all, start);
  later(start, () => experimentForm(signal, model));
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
          words(one.report?.conclusion),
          number(between(one.start_time, one.end_time)),
          number(ago(one.create_time)),
        ]),
        {
          caption: "Experiments",
          cut: found.cut,
          all: "ratchet experiments list --limit 0",
          empty: empty(
            "There is no experiment yet. An experiment puts two versions side by side on live traffic and needs no gate:",
            EXAMPLE,
          ),
        },
      ),
  );
}
