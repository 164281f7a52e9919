// Turns and studies that the platform does, their schedules, and how far one is.

import { follow, get, list, post, remove } from "../api.js";
import { button, el, empty, facts, number, section, table, words } from "../dom.js";
import { ago, between, clock, span, word } from "../format.js";
import { confirmed } from "../forms.js";
import { live, refresh } from "../live.js";
import { actions, evaluationLink, link, modelLink, releaseLink, runLink, state, to } from "./parts.js";

const kind = (plan) => word(plan.kind, "WORKFLOW_KIND_");
const workflowLink = (id) => (id ? link(to("workflows", id), id) : "");
const ACTIONS = {
  cancel: [
    "Cancel the workflow",
    "Ends it, with its runs and evaluations under way. A release goes on, by its own stop rule.",
    true,
    ["STATE_QUEUED", "STATE_RUNNING"],
  ],
  resume: ["Resume the workflow", "It goes on where it was.", false, ["STATE_FAILED", "STATE_CANCELLED"]],
};

export async function workflows({ host, signal }) {
  const all = el("div"),
    due = el("div");
  host.append(all, section("Schedules", due));
  await Promise.all([drawWorkflows(all, signal), drawSchedules(due, signal)]);
}

const drawWorkflows = (all, signal) =>
  live(
    all,
    signal,
    () => list("workflows", "workflows", { signal, limit: 100 }),
    (found) =>
      table(
        ["workflow", "state", "kind", "plan", "what it says", "took", "made"],
        found.map((one) => [
          workflowLink(one.id),
          state(one.state),
          kind(one.plan),
          el("td", {}, one.plan.name, one.model && el("div", { class: "note" }, modelLink(one.model))),
          words(one.sentence),
          number(between(one.start_time, one.end_time)),
          number(ago(one.create_time)),
        ]),
        {
          caption: "Workflows",
          cut: found.cut,
          all: "ratchet workflows list --limit 0",
          empty: empty(
            "There is no workflow yet. The platform does what a file says:",
            "ratchet improve -f improve.yaml",
          ),
        },
      ),
  );

const drawSchedules = (due, signal) =>
  live(
    due,
    signal,
    () => list("schedules", "schedules", { signal, limit: 100 }),
    (found) =>
      table(
        ["schedule", "plan", "when", "next", "last", "what kept it", ""],
        found.map((one) => [
          one.id,
          `${one.plan.name} (${kind(one.plan)})`,
          trigger(one),
          clock(one.next_time),
          workflowLink(one.workflow_id),
          words(one.fault),
          button("Delete", () => ask(one, due), "faint"),
        ]),
        {
          caption: "Schedules",
          cut: found.cut,
          all: "ratchet workflows schedules list --limit 0",
          empty: empty("No workflow begins without somebody:", "ratchet improve -f improve.yaml --every '0 3 * * 1'"),
        },
      ),
  );

function trigger(one) {
  if (one.cron) return el("code", {}, one.cron);
  return one.every ? `every ${span(Number.parseFloat(one.every))}` : `${one.when_feedback} scores`;
}

const ask = (one, due) =>
  confirmed({
    title: `Delete: ${one.id}?`,
    text: "It begins nothing more. Its workflows stay, and go on.",
    action: "Delete",
    danger: true,
    act: async () => (await remove(to("schedules", one.id)), refresh(due)),
  });

export async function workflow({ host, parts: [id], signal }) {
  const above = el("div"),
    stages = section("Stages"),
    lines = el("ol", { class: "lines" });
  const act = async (name) => (await post(to("workflows", id, name)), refresh(above));
  const deeds = actions(id, ACTIONS, act, Object.keys(ACTIONS));
  const rows = el("div");
  stages.append(rows);
  host.append(above, deeds.node, stages, section("Log", lines));
  let seen = 0;
  const said = ({ lines: news }) =>
    (news ?? []).forEach((one) => {
      lines.append(el("li", { title: clock(one.create_time) }, one.text));
      seen = one.number;
    });
  follow(to("workflows", id, "watch"), () => ({ after_line: seen }), signal, said).catch(() => {}); // the facts say why
  await live(
    above,
    signal,
    async () => (await get(to("workflows", id), {}, signal)).workflow,
    (one) => {
      deeds.show(one.state);
      rows.replaceChildren(
        table(["stage", "is"], staged(one.record), { caption: "Stages", empty: empty("None has begun.") }),
      );
      return facts([
        ["state", state(one.state)],
        ["what it says", one.sentence],
        ["plan", `${one.plan.name} (${kind(one.plan)})`],
        ["model", one.model && modelLink(one.model)],
        ["made", el("span", {}, ago(one.create_time), ` by ${one.schedule_id || one.actor}`)],
        ["took", between(one.start_time, one.end_time)],
      ]);
    },
  );
}

function staged({ run, evaluations, gate, release, cells }) {
  return [
    ...Object.entries(evaluations ?? {}).map(([version, one]) => [`measure ${version}`, evaluationLink(one)]),
    run && ["train", runLink(run)],
    gate && ["gate", gate],
    release && ["release", releaseLink(release)],
    ...(cells ?? []).map((one) => [one.name, el("td", {}, runLink(one.run), " ", evaluationLink(one.evaluation))]),
  ].filter(Boolean);
}
