// Filters and the order of a list. They are in the address of the page, so that it can be kept and passed on.

import { el } from "../dom.js";
import { field, select } from "../forms.js";

const PERIODS = [
  ["", "any time"],
  ["1", "the last hour"],
  ["24", "the last day"],
  ["168", "the last week"],
  ["720", "the last 30 days"],
];
const TYPING = 400; // milliseconds
const OWN = "only-"; // a form below has a field of the model, too

// `kinds`: states that can be chosen, as words; none: the service filters by neither state nor time. `texts`: name -> label of what is typed. `orders`: word -> how two items are
// compared; the first is the order of the service. `changed()` is called when another list is wanted.
export function filters(path, query, { kinds, texts, orders, changed }) {
  const chosen = new URLSearchParams(query);
  let waiting;
  const inputs = [
    kinds &&
      field(
        "In state",
        select(`${OWN}state`, [["", "any"], ...kinds.map((kind) => [kind, kind])], chosen.get("state") ?? ""),
      ),
    ...Object.entries(texts).map(([name, label]) =>
      field(
        label,
        el("input", { name: `${OWN}${name}`, type: "search", value: chosen.get(name) ?? "", autocomplete: "off" }),
      ),
    ),
    kinds && field("Made in", select(`${OWN}since`, PERIODS, chosen.get("since") ?? "")),
    field(
      "Sorted",
      select(
        `${OWN}order`,
        Object.keys(orders).map((name) => [orders[name] ? name : "", name]),
        chosen.get("order") ?? "",
      ),
    ),
  ];
  const node = el(
    "form",
    { class: "fields filters", role: "search", onsubmit: (event) => event.preventDefault(), oninput: look },
    inputs,
  );

  function look() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const [name, value] of new FormData(node)) set(name.slice(OWN.length), value);
      changed();
    }, TYPING);
  }

  function set(name, value) {
    if (value) chosen.set(name, value);
    else chosen.delete(name);
    history.replaceState(null, "", `#/${path}${chosen.size ? `?${chosen}`.replaceAll("%2C", ",") : ""}`);
  }

  return {
    node,
    set, // another part of the view keeps its choice in the address, too
    get any() {
      return ["state", "since", ...Object.keys(texts)].some((name) => chosen.get(name));
    },
    // For the request.
    get query() {
      const wanted = Object.fromEntries(Object.keys(texts).map((name) => [name, chosen.get(name) ?? ""]));
      const hours = Number(chosen.get("since"));
      // To the minute: so that the answer is the same for a while.
      const since = hours ? new Date(Math.floor(Date.now() / 60e3 - 60 * hours) * 60e3).toISOString() : "";
      const state = chosen.get("state");
      return { ...wanted, state: state ? `STATE_${state.toUpperCase()}` : "", after_time: since };
    },
    sorted(found) {
      const compare = orders[chosen.get("order")];
      return compare ? Object.assign(found.toSorted(compare), { cut: found.cut }) : found;
    },
  };
}
