// Data sets: their versions, what examination found in them, and a form that uploads one.

import { get, list, post, remove } from "../api.js";
import { el, empty, facts, number, section, table, words } from "../dom.js";
import { ago, bytes, clock, count, seconds, span, word } from "../format.js";
import { field, form } from "../forms.js";
import { live } from "../live.js";
import { actions, bar, hash, link, modelLink, runLink, state, to } from "./parts.js";

const name = (one) => `${one.name}@${one.number}`;
const place = (one) => to("datasets", one.name, "versions", one.number);
const ADD = ["ratchet data add train.jsonl validation.jsonl --name mine", "ratchet data fetch humaneval"];
const PIECE = 512 * 1024; // bytes of an upload's request: 1 MiB at most, as base64
const LARGEST = 256 * 2 ** 20; // bytes that the browser keeps in memory for their digest
const DEEDS = {
  delete: [
    "Delete",
    "Its content is deleted, and its number is never given again. Runs and evaluations that used it cannot be repeated.",
    true,
    ["STATE_READY", "STATE_FAILED", "STATE_UPLOADING"],
  ],
};

export async function datasets({ host, signal }) {
  const all = el("div"),
    progress = el("div", { "aria-live": "polite" });
  host.append(all, section("Add a data set", addForm(progress), progress));
  await live(
    all,
    signal,
    () => list("datasets", "datasets", { signal }),
    (found) => versions(found),
  );
}

export async function dataset({ host, parts: [of, number_], signal }) {
  const about = el("div"),
    found = el("div"),
    others = el("div");
  const can = actions(
    `${of}${number_ ? `@${number_}` : ""}`,
    DEEDS,
    async () => {
      await remove(`${to("datasets", of, "versions", number_)}?force=true`); // asked for in so many words
      location.hash = "#/datasets";
    },
    Object.keys(DEEDS),
  );
  host.append(about, number_ ? can.node : "", number_ ? section("Findings", found) : "", section("Versions", others));
  await Promise.all([
    number_ &&
      live(
        found,
        signal,
        () => list(to("datasets", of, "versions", number_, "findings"), "findings", { signal }),
        (all) => findings(all, `${of}@${number_}`),
        15,
      ),
    live(
      about,
      signal,
      () => get(to(...["datasets", of, ...(number_ ? ["versions", number_] : [])]), {}, signal),
      ({ dataset: one }) => (can.show(one.state), drawn(one)),
    ),
    live(others, signal, () => list("datasets", "datasets", { query: { name: of }, signal }), versions, 15),
  ]);
}

function drawn(one) {
  const card = one.card ?? {};
  const train = one.splits.some((split) => split.name === "train") ? "/train" : "";
  return [
    facts([
      ["version", name(one)],
      ["state", state(one.state)],
      ["failure", one.failure?.message],
      ["description", card.description],
      ["source", card.source],
      ["licence", card.licence],
      ["edition", card.edition],
      ["made of", card.made_of && madeOf(card.made_of)],
      ["made", clock(one.create_time)],
      ["by key", one.actor],
      ["runs and evaluations that used it", one.uses ? count(one.uses) : "none yet"],
      ["last of them", user(one.last_user)],
    ]),
    splits(one),
    ...one.splits.filter((split) => split.balance).map((split) => section(`Balance of ${split.name}`, balance(split))),
    ...one.splits
      .filter((split) => split.notices.length)
      .map((split) =>
        section(
          `Found in ${split.name}`,
          el(
            "ul",
            {},
            split.notices.map((text) => el("li", {}, text)),
          ),
        ),
      ),
    one.state === "STATE_READY" &&
      !card.edition &&
      !card.folders &&
      el(
        "p",
        { class: "note" },
        "Train on it: ",
        el(
          "code",
          {},
          card.pairs
            ? `ratchet train --model starter --algorithm dpo --pairs ${name(one)}${train}`
            : `ratchet train --model starter --problems ${name(one)}${train}`,
        ),
      ),
  ];
}

const splits = (one) =>
  table(
    ["split", "rows", "content", "digest", "findings"],
    one.splits.map((split) => [
      el("strong", {}, split.name),
      number(one.state === "STATE_READY" ? count(split.rows) : ""),
      one.state === "STATE_UPLOADING"
        ? bar(Number(split.received_bytes), Number(split.size_bytes))
        : one.state === "STATE_EXAMINING" && split.progress
          ? el("td", {}, word(split.progress.check, "CHECK_"), " ", examined(split.progress))
          : number(size(split.content_bytes || split.size_bytes)),
      hash(split.digest || split.content_sha256),
      number(split.notices.length || ""),
    ]),
    { caption: "Splits" },
  );

const findings = (found, version_) =>
  table(
    ["finding", "problem", "of", "detail", "state", "decided"],
    found.map((one) => [
      word(one.kind, "KIND_"),
      words(`${one.split}: ${one.problem}`),
      words([one.other_set, one.other].filter(Boolean).join(": ")),
      words(one.detail),
      state(one.state),
      words(one.decision ? `${one.decision.reason} (${one.decision.actor})` : ""),
    ]),
    {
      caption: "Findings",
      cut: found.cut,
      all: `ratchet data findings ${version_}`,
      empty: empty("Examination found nothing."),
    },
  );

const balance = ({ balance: of, references: runs, compared_sets: sets, compared_problems: problems }) =>
  facts([
    ["compared with", sets && `${count(problems)} problems of ${count(sets)} other sets`],
    ["characters of a prompt", spread(of.prompt)],
    ["characters of a reference", spread(of.reference)],
    ["tests a problem", spread(of.tests)],
    ["languages", counts(of.languages)],
    ["difficulty", counts(of.difficulties)],
    ["tags", counts(of.tags)],
    ...(runs ? ran(runs) : []),
  ]);

const ran = (of) => [
  ["references that pass", `${count((of.strict ?? 0) + (of.shared ?? 0))} of ${count(of.problems)}`],
  ["of these in the shared kind", of.shared && count(of.shared)],
  ["CPU time of a reference", of.cpu_time && spread(of.cpu_time, (s) => span(s))],
  ["memory of a reference", of.memory_bytes && spread(of.memory_bytes, bytes)],
  [
    "proposed limits",
    [
      of.cpu_time_limit && span(seconds(of.cpu_time_limit)),
      Number(of.memory_limit_bytes) && bytes(of.memory_limit_bytes),
    ]
      .filter(Boolean)
      .join(", "),
  ],
];

const spread = (of, write = count) =>
  of && `median ${write(of.median)}, nine in ten from ${write(of.p5)} to ${write(of.p95)}`;
const counts = (of) => of.map((one) => `${one.name} ${count(one.problems)}`).join(", ");

// Rows that are checked, or sets that the split is compared with; of how many is not always known at once.
const examined = ({ done, total }) => (Number(total) ? bar(Number(done ?? 0), Number(total)) : "…");

// "mine@1/train": the version, as a link.
function madeOf(text) {
  const [, of, number_] = text.match(/^([^@/]+)@(\d+)/) ?? [];
  return of ? link(to("datasets", of, number_), text) : text;
}

// A run, an evaluation, or nothing.
const user = (id = "") => (id.startsWith("eval_") ? link(to("evaluations", id), id) : runLink(id));

const size = (text) => (Number(text) < 2 ** 20 ? `${count(text)} bytes` : bytes(text));

const versions = (found) =>
  table(
    ["data set", "state", "splits", "rows", "licence", "used", "last by", "made"],
    found.map((one) => [
      el(
        "td",
        {},
        link(to("datasets", one.name, one.number), name(one)),
        one.card?.description && el("div", { class: "note" }, one.card.description),
      ),
      el("td", {}, state(one.state), one.failure && el("div", { class: "note" }, one.failure.message)),
      words(one.splits.map((split) => split.name).join(", ")),
      number(one.state === "STATE_READY" ? count(one.splits.reduce((sum, split) => sum + split.rows, 0)) : ""),
      one.card?.licence,
      number(one.uses || ""),
      user(one.last_user),
      number(ago(one.create_time)),
    ]),
    {
      caption: "Data sets",
      cut: found.cut,
      all: "ratchet data list --limit 0",
      empty: empty("There is no data set yet. Problems with tests, or a public benchmark:", ...ADD),
    },
  );

function addForm(progress) {
  return form({
    fields: [
      field(
        "Name",
        el("input", {
          name: "name",
          required: true,
          autocomplete: "off",
          spellcheck: "false",
          pattern: "[a-z0-9][a-z0-9_.\\-]*",
          maxlength: "63",
          "data-of": "name",
        }),
        "Lower case letters, digits, -, _ and .; a name that exists gets a new version.",
      ),
      field(
        "Files",
        el("input", {
          name: "files",
          type: "file",
          required: true,
          multiple: true,
          accept: ".jsonl,.parquet",
          "data-of": "splits",
        }),
        "JSONL or parquet with the fields of docs/data.md, one file a split: train.jsonl, validation.jsonl. Other columns, forms and larger files: ratchet data add.",
      ),
      field(
        "Licence",
        el("input", { name: "licence", autocomplete: "off", "data-of": "card.licence" }),
        "An SPDX identifier, such as MIT.",
      ),
      field(
        "Source",
        el("input", { name: "source", autocomplete: "off", "data-of": "card.source" }),
        "Where it comes from.",
      ),
    ],
    action: "Upload",
    act: (data, request) => upload(data, request, progress),
  });
}

async function upload(data, request, progress) {
  const files = data.getAll("files");
  if (!crypto.subtle) throw new Error("A browser uploads over https or from this machine only. Use: ratchet data add");
  const large = files.find((file) => file.size > LARGEST);
  if (large) throw new Error(`${large.name} is larger than 256 MiB. Use: ratchet data add`);
  progress.replaceChildren(el("p", { class: "note" }, "Reading …"));
  const found = new Map();
  for (const file of files) {
    const split = file.name.toLowerCase().replace(/\.(jsonl|parquet)$/, "");
    const content = await file.arrayBuffer();
    found.set(files.length === 1 && !KNOWN.includes(split) ? "train" : split, content);
  }
  try {
    const { dataset: one } = await post("datasets", {
      request_id: request,
      name: data.get("name"),
      card: { licence: data.get("licence"), source: data.get("source") },
      splits: await Promise.all(
        [...found].map(async ([split, content]) => ({
          name: split,
          size_bytes: content.byteLength,
          sha256: hex(await crypto.subtle.digest("SHA-256", content)),
        })),
      ),
    });
    if (one.state === "STATE_UPLOADING")
      for (const split of one.splits) await write(one, split, found.get(split.name), progress);
    location.hash = `#/${to("datasets", one.name, one.number)}`;
  } finally {
    progress.replaceChildren();
  }
}

const KNOWN = ["train", "validation", "test"];

// From what the registry has on: an upload that broke off goes on when it is sent again.
async function write(one, split, content, progress) {
  let done = Number(split.received_bytes);
  while (done < content.byteLength) {
    progress.replaceChildren(el("p", {}, `${split.name}: `, bar(done, content.byteLength)));
    const { received_bytes: received } = await post(`${place(one)}/splits/${encodeURIComponent(split.name)}/content`, {
      offset: done,
      data: base64(new Uint8Array(content, done, Math.min(PIECE, content.byteLength - done))),
    });
    done = Number(received);
  }
}

const hex = (digest) => [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function base64(piece) {
  let text = "";
  for (let at = 0; at < piece.length; at += 0x8000) text += String.fromCharCode(...piece.subarray(at, at + 0x8000));
  return btoa(text);
}
