// Training runs.

import { get, list, post, remove } from "../api.js";
import { el, empty, facts, number, problem, section, table } from "../dom.js";
import { ago, between, clock, cost, interval, model, short, used, waiting, word } from "../format.js";
import { later, live, refresh } from "../live.js";
import { filters } from "./filters.js";
import { actions, bar, evaluationLink, hash, link, runLink, runState, to, versionLink } from "./parts.js";
import { Curves, ENDED } from "./curves.js";
import { runForm } from "./run_form.js";
import { ofTraining } from "./samples.js";

const START = "ratchet train --model starter --algorithm grpo";
const ACTIONS = {
  cancel: [
    "Cancel the run",
    "Ends it after its present step. Its checkpoints stay.",
    true,
    ["STATE_QUEUED", "STATE_STARTING", "STATE_RUNNING"],
  ],
  resume: [
    "Resume",
    "Continues from its last checkpoint, or from its base if it has none.",
    false,
    ["STATE_FAILED", "STATE_CANCELLED"],
  ],
  delete: ["Delete", "Deletes it for good, with its curves, checkpoints and files. Its version stays.", true, ENDED],
};
const score = (it) => (it.validation ? interval(it.validation) : short(it.validation_score));
const waits = (run) => {
  if (run.state === "STATE_QUEUED") return run.waits_for && `waits for ${run.waits_for}`;
  if (run.waits_for) return `validating ${run.waits_for}`;
  return run.state === "STATE_RUNNING" && run.preempted_by && `makes room for ${run.preempted_by} after this step`;
};
const ORDERS = {
  newest: null,
  oldest: (a, b) => (a.create_time < b.create_time ? -1 : 1),
  "by name": (a, b) => (a.spec.display_name ?? "").localeCompare(b.spec.display_name ?? ""),
  "by validation score": (a, b) =>
    (b.best_checkpoint?.validation_score ?? -1) - (a.best_checkpoint?.validation_score ?? -1),
};
const TOGETHER = 4; // more streams than that at once, and a browser has no connection left for anything else

export async function runs({ host, query, signal }) {
  const chosen = new Set((query.get("show") ?? "").split(",").filter(Boolean).slice(0, TOGETHER));
  const said = el("p", { class: "note", "aria-live": "polite" });
  const curves = new Curves(signal);
  const all = el("div"),
    start = section("Start a run");
  const filter = filters("runs", query, {
    kinds: ["queued", "starting", "running", "succeeded", "failed", "cancelled"],
    texts: { model: "Of model", name: "Named" },
    orders: ORDERS,
    changed: () => refresh(all),
  });
  const how = el("p", { class: "note", hidden: true }, `Tick up to ${TOGETHER} to see their curves side by side.`);
  host.append(how, filter.node, all, said, curves.node, start);
  later(start, () => runForm(signal));
  for (const id of chosen) curves.add(id);

  function choose(id, input) {
    if (input.checked && chosen.size === TOGETHER) {
      input.checked = false;
      said.textContent = `${TOGETHER} runs are side by side: untick one first.`;
      return;
    }
    said.textContent = "";
    if (input.checked) (chosen.add(id), curves.add(id));
    else (chosen.delete(id), curves.drop(id));
    filter.set("show", [...chosen].join(","));
  }

  await live(
    all,
    signal,
    async () => filter.sorted(await list("runs", "runs", { signal, limit: 100, query: filter.query })),
    (found) => {
      how.hidden = !found.length;
      filter.node.hidden = !found.length && !filter.any;
      return table(
        ["", "run", "state", "algorithm", "base", "steps", "took", "version", "started"],
        found.map((run) => [
          el("input", {
            type: "checkbox",
            name: run.id,
            checked: chosen.has(run.id),
            "aria-label": `Curves of ${run.id}`,
            onchange: (event) => choose(run.id, event.target),
          }),
          el("td", {}, runLink(run.id), run.spec.display_name && el("div", { class: "note" }, run.spec.display_name)),
          el("td", {}, runState(run), waits(run) && el("div", { class: "note" }, waits(run))),
          word(run.spec.algorithm, "ALGORITHM_"),
          model(run.spec.base),
          bar(run.step, run.spec.steps),
          number(between(run.start_time, run.end_time)),
          versionLink(run.version),
          number(ago(run.create_time)),
        ]),
        {
          caption: "Training runs",
          cut: found.cut,
          all: "ratchet runs list --limit 0",
          empty: filter.any
            ? el("p", { class: "note" }, "No run is like that.")
            : empty("There is no training run yet. Start one, and it shows up here:", START),
        },
      );
    },
  );
}

export async function run({ host, parts: [id, tab, sample], query, signal }) {
  host.append(tabs(id, tab));
  if (tab === "samples") await ofTraining({ host, id, sample, query, signal });
  else await overview({ host, id, signal });
}

function tabs(id, chosen = "") {
  const all = [
    ["", "Overview", to("runs", id)],
    ["samples", "Samples", to("runs", id, "samples")],
  ];
  return el(
    "nav",
    { class: "tabs", "aria-label": "Run" },
    all.map(([tab, text, path]) => el("a", { href: `#/${path}`, "aria-current": tab === chosen && "page" }, text)),
  );
}

async function overview({ host, id, signal }) {
  const about = el("div");
  const curves = new Curves(signal, (now) => show(now));
  const can = actions(
    id,
    ACTIONS,
    async (name) => {
      if (name === "delete") {
        await remove(to("runs", id));
        location.hash = "#/runs";
        return;
      }
      show((await post(to("runs", id, name))).run);
      if (name === "resume") (curves.drop(id), curves.add(id)); // what followed it has ended
    },
    Object.keys(ACTIONS),
  );
  can.node.append(link(`runs?show=${encodeURIComponent(id)}`, "Beside other runs"));
  host.append(about, can.node, curves.node);

  function show(now) {
    const { spec } = now;
    about.replaceChildren(
      facts([
        ["state", el("span", {}, runState(now), now.attempt > 1 && ` attempt ${now.attempt}`)],
        ["name", spec.display_name],
        ["now", ENDED.includes(now.state) ? "" : waits(now) || word(now.phase, "PHASE_").replace("unspecified", "")],
        ["priority", word(spec.priority, "PRIORITY_")],
        ["made room", now.preemptions ? `${now.preemptions} times` : ""],
        ["steps", bar(now.step, spec.steps)],
        ["algorithm", word(spec.algorithm, "ALGORITHM_")],
        ["base", model(spec.base)],
        ["parent", spec.parent && `step ${spec.parent.step} of ${spec.parent.run_id}`],
        ["version", versionLink(now.version)],
        [
          "best checkpoint",
          now.best_checkpoint && `step ${now.best_checkpoint.step}, score ${score(now.best_checkpoint)}`,
        ],
        ["problems", spec.problems?.name],
        ["pairs", spec.pairs?.name],
        ["made", clock(now.create_time)],
        ["took", between(now.start_time, now.end_time)],
        ["used", used(now.usage)],
        ["waited", waiting(now.usage)],
        ["cost", cost(now.usage, spec.budget)],
        ["masked samples", Number(now.platform_faults) || ""],
      ]),
      now.failure ? problem({ message: now.failure.message }) : "",
      el(
        "ul",
        {},
        now.notices.map((one) => el("li", {}, one.step > 0 && `step ${one.step}: `, one.message)),
      ),
      el("details", {}, el("summary", {}, "Settings"), el("pre", {}, el("code", {}, JSON.stringify(spec, null, 2)))),
    );
    can.show(now.state);
  }

  show((await get(to("runs", id), {}, signal)).run);
  curves.add(id);
  const checkpoints = el("div");
  host.append(section("Checkpoints", checkpoints));
  await live(
    checkpoints,
    signal,
    () => list(to("runs", id, "checkpoints"), "checkpoints", { signal }),
    (found) =>
      table(
        ["step", "validation score", "evaluation", "weights", "made"],
        found.map((one) => [
          number(one.step),
          number(one.unscored ? "–" : score(one)),
          el("span", { title: one.unscored }, evaluationLink(one.evaluation_id) || one.unscored),
          hash(one.policy_id),
          ago(one.create_time),
        ]),
        { caption: "Checkpoints", empty: empty("None is written yet.") },
      ),
    15,
  );
}
