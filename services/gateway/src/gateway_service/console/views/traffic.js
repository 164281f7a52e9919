// What is kept of production: prompts with their answers, and the episodes that they are of.

import { get } from "../api.js";
import { el, facts } from "../dom.js";
import { ago, clock } from "../format.js";
import { field } from "../forms.js";
import { answered, produced } from "./episode.js";
import { link, to } from "./parts.js";
import { pages } from "./samples.js";

const FILTERS = [
  ["Model", "model"],
  ["Session", "session"],
  ["Key", "key_id"],
];

// All that is chosen is in the address.
export async function traffic({ host, query, signal }) {
  const form = el(
    "form",
    { class: "fields", onsubmit: (event) => event.preventDefault() },
    FILTERS.map(([title, name]) =>
      field(title, el("input", { name, value: query.get(name) ?? "", spellcheck: "false", autocomplete: "off" })),
    ),
  );
  const chosen = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  const find = async (token) => {
    const found = await get("traffic", { page_size: 20, page_token: token, ...chosen() }, signal);
    return { samples: found.exchanges, next_page_token: found.next_page_token };
  };
  const list = pages(find, row, "Nothing is kept: keys consent to it with `ratchet keys traffic KEY on`.");
  form.addEventListener("change", () => {
    const search = new URLSearchParams(chosen()).toString();
    history.replaceState(null, "", `#/traffic${search && `?${search}`}`);
    list.again();
  });
  host.append(form, el("p", { class: "note" }, "The newest first."), list.node);
  await list.again();
}

// The episode of one, unfolded.
export function exchange({ host, parts: [id] }) {
  const episode = produced({ id });
  host.append(el("p", {}, id), episode);
  episode.open = true;
}

const row = (one) =>
  el(
    "details",
    { class: "sample" },
    el("summary", {}, ago(one.start_time), " ", answered(one), el("div", { class: "note" }, opening(one))),
    facts([
      ["completion", link(to("traffic", one.id), one.id)],
      ["time", clock(one.start_time)],
      ["key", one.key_id],
      ["user", one.user],
      ["session", one.session],
      ["tokens", `${one.prompt_tokens} and ${one.completion_tokens}`],
    ]),
    produced(one),
  );

// The last that was said before the answer.
function opening({ prompt }) {
  const last = prompt.chat?.messages.at(-1)?.content ?? [];
  const text = prompt.text ?? last.map((part) => part.text).join("");
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}
