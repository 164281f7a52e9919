// Rewards of one's own: their versions, and the source of each.

import { get, list } from "../api.js";
import { el, empty, facts, number, section, table } from "../dom.js";
import { ago, clock, count } from "../format.js";
import { live } from "../live.js";
import { hash, link, runLink, to } from "./parts.js";

const name = (one) => `${one.name}@${one.number}`;
const ADD = [
  "ratchet new reward brevity --task code",
  "ratchet rewards try brevity.py",
  "ratchet rewards add brevity.py",
];

export async function rewards({ host, signal }) {
  await live(
    host,
    signal,
    () => list("rewards", "rewards", { signal }),
    (found) => versions(found),
  );
}

export async function reward({ host, parts: [of, number_], signal }) {
  const { reward: one } = await get(to(...["rewards", of, ...(number_ ? ["versions", number_] : [])]), {}, signal);
  const others = el("div");
  host.append(
    facts([
      ["version", name(one)],
      ["description", one.description],
      ["source", el("span", {}, hash(one.digest), ` ${count(one.size_bytes)} bytes`)],
      ["made", clock(one.create_time)],
      ["by key", one.actor],
      ["runs that used it", one.runs ? count(one.runs) : "none yet"],
      ["last of them", runLink(one.last_run_id)],
    ]),
    el("p", { class: "note" }, "Train on it: ", el("code", {}, `ratchet train --model starter --reward ${name(one)}`)),
    section("Source", el("pre", {}, el("code", {}, one.source))),
    section("Versions", others),
  );
  await live(others, signal, () => list("rewards", "rewards", { query: { name: of }, signal }), versions, 15);
}

const versions = (found) =>
  table(
    ["reward", "description", "source", "bytes", "runs", "last run", "by key", "made"],
    found.map((one) => [
      link(to("rewards", one.name, one.number), name(one)),
      one.description,
      hash(one.digest),
      number(count(one.size_bytes)),
      number(one.runs || ""),
      runLink(one.last_run_id),
      one.actor,
      number(ago(one.create_time)),
    ]),
    {
      caption: "Rewards",
      empty: empty("There is no reward of your own yet. A reward is a short Python program:", ...ADD),
    },
  );
