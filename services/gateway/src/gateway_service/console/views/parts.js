// What several views draw.

import { button, el, svg } from "../dom.js";
import { digest, mood, short, version, word } from "../format.js";
import { confirmed } from "../forms.js";

export const link = (path, text) => el("a", { href: `#/${path}` }, text);
export const to = (...parts) => parts.map(encodeURIComponent).join("/");
export const runLink = (id) => (id ? link(to("runs", id), id) : "");
export const modelLink = (name) => link(to("models", name), name);
export const versionLink = (ref) => (version(ref) ? link(to("models", ref.model), version(ref)) : "");
export const evaluationLink = (id) => (id ? link(to("evaluations", id), id) : "");
export const releaseLink = (id) => (id ? link(to("releases", id), id) : "");
export const hash = (text) => (text ? el("code", { title: text }, digest(text)) : "");

export function state(value, prefix) {
  const text = word(value, prefix);
  return el("span", { class: `state ${mood(text)}` }, text);
}

// A run that learned nothing is no success, though it ended well.
export function runState(run) {
  const nothing = run.state === "STATE_SUCCEEDED" && run.notices.some((one) => one.guard === "learned_nothing");
  return nothing ? el("span", { class: "state plain" }, "learned nothing") : state(run.state);
}

export function bar(done, total) {
  const text = `${done} of ${total}`;
  return el("span", {}, el("progress", { value: done, max: Math.max(1, total), "aria-label": text }), ` ${text}`);
}

// Buttons of what can be done with a resource. `table`: name -> [label, question, dangerous, the states in which it can be
// done]. `act(name, reason)`: a reason is asked for, but for those that are `plain`. `show(state)`: those of the state.
export function actions(id, table, act, plain = []) {
  const node = el("div", { class: "actions" });
  const offered = Object.entries(table).map(([name, [label, text, danger, states]]) => {
    const asked = { title: `${label}: ${id}?`, text, action: label, danger, reason: !plain.includes(name) };
    const ask = () => confirmed({ ...asked, act: (reason) => act(name, reason) });
    return [states, button(label, ask, name === "delete" ? "faint" : danger ? "danger" : "")];
  });
  // A button that stays is not touched: it may have the focus.
  function show(now) {
    for (const [states, one] of offered) {
      if (!states.includes(now)) one.remove();
      else if (!one.isConnected) node.append(one);
    }
  }
  return { node, show };
}

// Rows of { label, low, value, high, mood, text } as dots with their intervals on one axis, with a line at 0 or `zero`. Where
// there is no room beside them, what a row is stands above it.
export function intervals(rows, { zero = 0, label, from, to } = {}) {
  const narrow = innerWidth < 560;
  const [left, width, right, line] = narrow ? [8, 324, 8, 46] : [190, 330, 200, 30];
  const low = from ?? Math.min(zero, ...rows.map((row) => row.low)),
    high = to ?? Math.max(zero, ...rows.map((row) => row.high));
  const room = (high - low || 1) * (from == null ? 0.06 : 0);
  const x = (value) => left + (width * (value - low + room)) / (high - low + 2 * room || 1);
  const height = rows.length * line + 26;
  return svg(
    "svg",
    {
      class: "bars",
      viewBox: `0 0 ${left + width + right} ${height}`,
      role: "img",
      "aria-label": `${label}: ${rows.map((row) => `${row.label} ${row.text}`).join("; ")}`,
    },
    svg("line", { class: "axis", x1: left, x2: left + width, y1: height - 20, y2: height - 20 }),
    [low, high].map((value, end) =>
      svg("text", { class: "soft", x: x(value), y: height - 5, "text-anchor": end ? "end" : "start" }, short(value)),
    ),
    low <= zero &&
      zero <= high &&
      from == null &&
      svg("line", { class: "zero", x1: x(zero), x2: x(zero), y1: 4, y2: height - 20 }),
    rows.map((row, place) => {
      const y = place * line + (narrow ? 34 : 18);
      const name = row.label.length > 28 ? `${row.label.slice(0, 27)}…` : row.label;
      return svg(
        "g",
        {},
        narrow
          ? [
              svg("text", { x: 0, y: y - 16 }, name),
              svg("text", { x: left + width + right, y: y - 16, "text-anchor": "end" }, row.text),
            ]
          : [
              svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, name),
              svg("text", { x: left + width + 12, y: y + 4 }, row.text),
            ],
        svg("line", { class: `range ${row.mood ?? "plain"}`, x1: x(row.low), x2: x(row.high), y1: y, y2: y }),
        svg("circle", { class: row.mood ?? "plain", cx: x(row.value), cy: y, r: 5 }),
        row.label !== name && svg("title", {}, row.label),
      );
    }),
  );
}
