// Experiments.

import { list } from "../api.js";
import { el, empty, number, section, table, words } from "../dom.js";
import { ago, between, metricName, version } from "../format.js";
import { later, live, refresh } from "../live.js";
import { experimentForm } from "./experiment_form.js";
import { filters } from "./filters.js";
import { link, state, to } from "./parts.js";

const EXAMPLE =
  "ratchet experiments create --variant control=starter@1 --variant treatment=starter@2 --metric quality:0.02 --start";

const ORDERS = {
  newest: null,
  oldest: (a, b) => (a.create_time < b.create_time ? -1 : 1),
  "by name": (a, b) => a.spec.display_name.localeCompare(b.spec.display_name),
};

export async function experiments({ host, query, signal }) {
  const all = el("div"),
    start = section("Start an experiment");
  const filter = filters("experiments", query, {
    texts: { model: "Of model", name: "Named" },
    orders: ORDERS,
    changed: () => refresh(all),
  });
  host.append(filter.node, all, start);
  later(start, () => experimentForm(signal, query.get("model") ?? ""));
  await live(
    all,
    signal,
    async () => filter.sorted(await list("experiments", "experiments", { signal, limit: 100, query: filter.query })),
    (found) => {
      filter.node.hidden = !found.length && !filter.any;
      return table(
        ["experiment", "state", "variants", "primary metric", "conclusion", "lasted", "made"],
        found.map((one) => [
          el(
            "td",
            {},
            link(to("experiments", one.id), one.id),
            [one.spec.display_name, one.spec.description].map((text) => text && el("div", { class: "note" }, text)),
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
          empty: filter.any
            ? el("p", { class: "note" }, "No experiment is like that.")
            : empty(
                "There is no experiment yet. An experiment puts two versions side by side on live traffic and needs no gate:",
                EXAMPLE,
              ),
        },
      );
    },
  );
}
