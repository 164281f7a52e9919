// An episode: what was said step by step; of a task folder also how its command ended, the files that it changed, and the
// verdict.

import { get } from "../api.js";
import { el, facts } from "../dom.js";
import { seconds, short, span, word } from "../format.js";
import { later } from "../live.js";
import { to, versionLink } from "./parts.js";

const code = (text) => text && el("pre", {}, el("code", {}, text));
const step = (heading, ...texts) => [el("h4", {}, heading), texts.map(code)];

// Loaded when it is opened: a record may be long.
export const episode = (evaluation, { problem_id, benchmark, index }) =>
  unfolding(() => get(to("evaluations", evaluation, "episode"), { problem_id, benchmark, index }));

export const trained = (run, { id }) => unfolding(() => get(to("runs", run, "samples", id), { record: true }));

export const produced = ({ id }) => unfolding(() => get(to("traffic", id, "episode")), conversation);

function unfolding(load, draw = ({ record }) => drawn(record)) {
  const node = el("details", { class: "episode" }, el("summary", {}, "Episode, step by step"));
  node.addEventListener("toggle", () => later(node, async () => draw(await load())), { once: true });
  return node;
}

function conversation({ session, exchanges }) {
  const places = {}; // of an exchange's answers
  return el(
    "div",
    {},
    session.calls.map((call) => {
      const one = exchanges[call.index];
      places[one.id] = (places[one.id] ?? -1) + 1;
      const accepted = one.accepted?.index === places[one.id] ? one.accepted : null;
      return [called(call), el("p", { class: "note" }, answered({ ...one, accepted }))];
    }),
  );
}

// Who gave an answer in which time, and what people said of it.
export const answered = ({ version, arm, latency, score, accepted }) => [
  versionLink(version),
  arm === "ARM_NONE" ? "" : ` ${word(arm, "ARM_")}`,
  Number(seconds(latency)) > 0 ? `, ${span(seconds(latency))}` : "",
  score == null ? "" : `, score ${short(score)}`,
  accepted ? `, used: ${accepted.text}` : "",
];

function drawn({ session, ended, changes, verdict, left_out }) {
  return el(
    "div",
    {},
    facts([
      ["ended", `${ended.how}, after ${ended.wall_seconds.toFixed(1)} s`],
      ["left out", left_out.join(", ")],
    ]),
    session.calls.map(called),
    session.failed.map((one) => step("a call without an answer", one.reason)),
    ended.stdout && step("the command's output", ended.stdout),
    ended.stderr && step("the command's errors", ended.stderr),
    changes.length
      ? changes.map((one) => step(`${one.kind}: ${one.path}`, one.diff || one.note))
      : step("no file changed"),
    step(verdict ? `the judge: ${verdict.reason}` : "not judged", verdict?.output),
  );
}

const called = (call) => [
  call.branch && call.index > 0 && step(`branch: ${call.branch.reason}`),
  call.messages.map((message) => said(message.role, message)),
  call.reasoning && step(`thoughts before answer ${call.index + 1}`, call.reasoning),
  said(`answer ${call.index + 1}: ${call.finish_reason}`, call.answer),
];

const said = (heading, { content, tool_calls }) =>
  step(heading, content, ...tool_calls.map((one) => `${one.name} ${one.arguments}`));
