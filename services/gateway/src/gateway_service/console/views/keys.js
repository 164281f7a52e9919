// API keys: who may come in.

import { key, list, post, put, remove, sleep } from "../api.js";
import { button, el, section, table } from "../dom.js";
import { ago, clock } from "../format.js";
import { confirmed, field, form, numeric, select } from "../forms.js";
import { live, refresh } from "../live.js";
import { parts } from "./choices.js";
import { state, to } from "./parts.js";

const SCOPES = [
  ["SCOPE_INFERENCE", "completions"],
  ["SCOPE_READ", "look at everything but keys, traffic and webhooks (read)"],
  ["SCOPE_TRAIN", "runs, evaluations, models, data sets (train)"],
  ["SCOPE_RELEASE", "releases, experiments, aliases (release)"],
  ["SCOPE_PROGRAMS", "programs in the sandbox"],
  ["SCOPE_ADMIN", "everything (admin)"],
];
const KEEPING = [
  ["", "forgotten"],
  ["yes", "kept, to learn from"],
];
const DAY = 86_400_000;
const words = (scopes) => scopes.map((scope) => scope.replace("SCOPE_", "").toLowerCase()).join(", ");

export async function keys({ host, signal }) {
  const all = el("div"),
    made = el("div", { "aria-live": "polite" });
  host.append(
    all,
    section(
      "Create a key",
      makeForm(made, () => refresh(all)),
      made,
    ),
  );
  await live(
    all,
    signal,
    () => list("keys", "keys", { signal, limit: 1000 }),
    (found) =>
      table(
        ["name", "secret", "state", "may call", "traffic", "made", ""],
        found.map((one) => [
          el("td", {}, one.name, el("div", { class: "note" }, one.id)),
          el("code", {}, `${one.hint}…`),
          el("td", {}, state(standing(one), ""), ending(one)),
          el("td", {}, words(one.scopes), el("div", { class: "note" }, one.models.join(", ") || "all models")),
          one.keep_traffic ? "kept" : "forgotten",
          el("td", {}, ago(one.create_time), one.actor && el("div", { class: "note" }, `by ${maker(one, found)}`)),
          standing(one) === "valid" && deeds(one, all),
        ]),
        { caption: "Keys", cut: found.cut, all: "ratchet keys list --limit 0" },
      ),
  );
}

function standing(one) {
  if (one.revoke_time) return "revoked";
  return one.expire_time && Date.parse(one.expire_time) < Date.now() ? "expired" : "valid";
}

function ending(one) {
  const moment = one.revoke_time ? ago(one.revoke_time) : one.expire_time && `until ${clock(one.expire_time)}`;
  return moment && el("div", { class: "note" }, moment);
}

const maker = ({ actor }, found) => found.find((one) => one.id === actor)?.name ?? actor;

function deeds(one, all) {
  const own = key.get()?.startsWith(one.hint) ? " You are signed in with this key: you will be signed out." : "";
  const revoke = {
    title: `Revoke: ${one.name}?`,
    text: `Its requests are refused from now on, for good.${own}`,
    action: "Revoke",
    danger: true,
    reason: false,
    act: () => remove(to("keys", one.id)),
  };
  const keep = {
    title: one.keep_traffic ? `Forget the traffic of ${one.name}?` : `Keep the traffic of ${one.name}?`,
    text: one.keep_traffic
      ? "Prompts and answers are not kept from now on. Kept ones stay: ratchet traffic forget removes them."
      : "Prompts, answers and feedback are kept from now on, to train on and to replay in experiments.",
    action: one.keep_traffic ? "Forget" : "Keep",
    reason: false,
    act: () => put(to("keys", one.id, "traffic"), { keep: !one.keep_traffic }),
  };
  const ask = (question) => () => confirmed(question).then(() => refresh(all));
  const named = (text, question) => {
    const node = button(text, ask(question), "small");
    node.setAttribute("aria-label", `${text}: ${one.name}`);
    node.id = `${text.split(" ")[0]}-${one.id}`; // the focus is kept by it
    return node;
  };
  return el("td", { class: "number" }, named(`${keep.action} traffic`, keep), " ", named("Revoke", revoke));
}

function makeForm(made, done) {
  return form({
    action: "Create the key",
    fields: [
      field(
        "Name",
        el("input", { name: "name", required: true, maxlength: "100", autocomplete: "off", "data-of": "name" }),
      ),
      field("May do", select("scope", SCOPES, "", { "data-of": "scopes" })),
      field(
        "Models that it may call",
        el("input", { name: "models", autocomplete: "off", spellcheck: "false", "data-of": "models" }),
        "Separated by commas. Empty: all.",
      ),
      field("Days until it expires", numeric("days", "", { min: "1", "data-of": "expire_time" }), "Empty: never."),
      field("Its prompts and answers are", select("keep", KEEPING, "", { "data-of": "keep_traffic" })),
    ],
    async act(data, request_id) {
      const days = Number(data.get("days"));
      const { key: one, secret } = await post("keys", {
        request_id,
        name: data.get("name"),
        scopes: [data.get("scope")],
        models: parts(data.get("models")),
        keep_traffic: data.get("keep") === "yes",
        ...(days && { expire_time: new Date(Date.now() + days * DAY).toISOString() }),
      });
      made.replaceChildren(shown(one, secret));
      done();
    },
  });
}

// The secret is seen this once: it is kept nowhere, here as little as at the gateway.
function shown(one, secret) {
  const input = el("input", { class: "secret", readonly: true, value: secret, "aria-label": `Secret of ${one.name}` });
  input.addEventListener("focus", () => input.select());
  const copy = button("Copy", async () => {
    input.focus();
    try {
      await navigator.clipboard.writeText(secret);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Press Ctrl+C"; // a page that came by http from another machine may not write there
    }
    await sleep(3);
    copy.textContent = "Copy";
  });
  return el(
    "div",
    { class: "conclusion" },
    el("p", {}, `The secret of ${one.name}. It is shown only this once and not kept: copy it now.`),
    el("div", { class: "actions" }, input, copy),
  );
}
