// Two answers to one problem, side by side: which is better? And what the votes say of the models.

import { list, post, requestId } from "../api.js";
import { el, empty, number, problem, section, table } from "../dom.js";
import { short } from "../format.js";
import { field, form, select } from "../forms.js";
import { measured, titled } from "./evaluations.js";
import { evaluationLink, intervals, to } from "./parts.js";

const CHOICES = [
  ["CHOICE_LEFT", "Left is better", "1"],
  ["CHOICE_TIE", "No difference", "2"],
  ["CHOICE_RIGHT", "Right is better", "3"],
];

export async function votes({ host, query, signal }) {
  const found = (await list("evaluations", "evaluations", { signal })).filter((one) => one.state === "STATE_SUCCEEDED");
  if (found.length < 2)
    return host.append(
      empty(
        "You need two evaluations that succeeded on the same problems.",
        "ratchet evaluate --model starter@1 --benchmark composed/test",
        "ratchet evaluate --model starter@2 --benchmark composed/test",
      ),
    );
  const ids = (query.get("of") ?? "").split(",").filter(Boolean);
  const voter = query.get("as") ?? "";
  const options = found.map((one) => [one.id, titled(one)]);
  host.append(
    form({
      action: "Show pairs",
      fields: [
        field("One", select("one", options, ids[0] ?? found[0].id)),
        field("Other", select("other", options, ids[1] ?? found[1].id)),
        field(
          "Your name",
          el("input", { name: "voter", required: true, maxlength: "60", value: voter, autocomplete: "off" }),
          "You never get the same pair twice.",
        ),
      ],
      act: (data) =>
        void (location.hash = `#/votes?${new URLSearchParams({ of: [data.get("one"), data.get("other")], as: data.get("voter") })}`),
    }),
  );
  if (ids.length < 2) return undefined;
  const pair = el("div", { "aria-live": "polite" }),
    ranks = el("div");
  host.append(section("Which is better?", pair), section("Ranking", ranks));
  addEventListener(
    "keydown",
    (event) => {
      if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey)
        return;
      pair.querySelector(`button[data-key="${CSS.escape(event.key)}"]`)?.click();
    },
    { signal },
  );
  await Promise.all([ask(pair, ids, voter, () => rank(ranks, ids, found)), rank(ranks, ids, found)]);
}

async function ask(host, ids, voter, voted) {
  try {
    const { pair } = await post("preferences", { request_id: requestId(), evaluation_ids: ids, voter });
    const buttons = CHOICES.map(([choice, text, key]) =>
      el("button", { type: "button", "data-key": key, onclick: () => vote(choice) }, `${text} (${key})`),
    );
    const vote = async (choice) => {
      buttons.forEach((one) => (one.disabled = true));
      try {
        await post(to("preferences", pair.id, "vote"), { choice });
        await Promise.all([ask(host, ids, voter, voted), voted()]);
      } catch (error) {
        host.append(problem(error));
        buttons.forEach((one) => (one.disabled = false));
      }
    };
    host.replaceChildren(
      el("p", { class: "note" }, `${pair.benchmark}, ${pair.problem_id}`),
      el("pre", {}, pair.prompt),
      el(
        "div",
        { class: "pair" },
        el("pre", { "aria-label": "Left answer", tabindex: "0" }, el("code", {}, pair.left)),
        el("pre", { "aria-label": "Right answer", tabindex: "0" }, el("code", {}, pair.right)),
      ),
      el("div", { class: "actions" }, buttons),
    );
  } catch (error) {
    host.replaceChildren(
      error.code === "FAILED_PRECONDITION"
        ? empty(`There is no pair left to vote on: ${error.message}`)
        : problem(error),
    );
  }
}

async function rank(host, ids, found) {
  try {
    const { ranks, votes: many } = await post("preferences/rank", { evaluation_ids: ids });
    const of = (id) => found.find((one) => one.id === id);
    const name = (id) => (of(id) ? `${measured(of(id))} (${id.slice(-5)})` : id);
    host.replaceChildren(
      intervals(
        ranks.map((one) => ({
          ...one.strength,
          label: name(one.evaluation_id),
          text: `${short(one.strength.value)} [${short(one.strength.low)}, ${short(one.strength.high)}]`,
        })),
        { label: "Strength" },
      ),
      table(
        ["evaluation", "model", "votes", "wins"],
        ranks.map((one) => [
          evaluationLink(one.evaluation_id),
          of(one.evaluation_id) ? measured(of(one.evaluation_id)) : "",
          number(one.votes),
          number(one.wins),
        ]),
        { caption: "Ranking" },
      ),
      el(
        "p",
        { class: "note" },
        `Bradley-Terry over ${many} votes: the first of two is preferred with probability 1 / (1 + exp(second - first)).`,
      ),
    );
  } catch (error) {
    host.replaceChildren(error.code === "FAILED_PRECONDITION" ? empty(error.message) : problem(error));
  }
}
