// The frame: sign-in, and which view the address asks for.

import { ApiError, get, key, login } from "./api.js";
import { button, el, problem } from "./dom.js";
import { field, form } from "./forms.js";
import { comparison } from "./views/comparison.js";
import { dataset, datasets } from "./views/datasets.js";
import { evaluation, evaluations } from "./views/evaluations.js";
import { experiment } from "./views/experiment.js";
import { experiments } from "./views/experiments.js";
import { health } from "./views/health.js";
import { keys } from "./views/keys.js";
import { model, models } from "./views/models.js";
import { release } from "./views/release.js";
import { releases } from "./views/releases.js";
import { reward, rewards } from "./views/rewards.js";
import { run, runs } from "./views/runs.js";
import { exchange, traffic } from "./views/traffic.js";
import { votes } from "./views/votes.js";
import { workflow, workflows } from "./views/workflows.js";

// By the parts of the address after "#/". A view gets { host, parts, query, signal }; `signal` ends when it is left.
const VIEWS = [
  ["Health", "", health],
  ["Models", "models", models, model],
  ["Workflows", "workflows", workflows, workflow],
  ["Runs", "runs", runs, run],
  ["Releases", "releases", releases, release],
  ["Experiments", "experiments", experiments, experiment],
  ["Evaluations", "evaluations", evaluations, evaluation],
  ["Traffic", "traffic", traffic, exchange],
  ["Votes", "votes", votes],
  ["Data sets", "datasets", datasets, dataset],
  ["Rewards", "rewards", rewards, reward],
  ["Keys", "keys", keys],
];
const PAGES = { compare: ["Comparison", "evaluations", comparison] };

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const leave = document.getElementById("leave");
let shown = new AbortController();

nav.append(...VIEWS.map(([title, path]) => el("a", { href: `#/${path}` }, title)));
leave.addEventListener("click", signOut);
addEventListener("signed-out", (event) => signIn(event.detail));
addEventListener("hashchange", show);

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [head, ...parts] = path.split("/").map(decoded);
  const [title, section, view] = found(head, parts);
  nav.hidden = false;
  for (const link of nav.children) {
    if (link.getAttribute("href") === `#/${section}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title} · Ratchet`;
  const heading = el("h1", { tabindex: "-1" }, title);
  const host = el("div");
  main.replaceChildren(heading, host);
  heading.focus({ preventScroll: true });
  scrollTo(0, 0);
  try {
    await view({ host, parts, query: new URLSearchParams(search), signal });
  } catch (error) {
    if (!signal.aborted) host.append(problem(error));
    if (!(error instanceof ApiError) && !signal.aborted) throw error;
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed a lone %
  }
}

function found(head, parts) {
  if (PAGES[head]) return PAGES[head];
  const view = VIEWS.find(([, path]) => path === head);
  if (!view)
    return [
      "Not found",
      "",
      ({ host }) => host.append(el("p", {}, "This view does not exist. ", el("a", { href: "#/" }, "To the start"))),
    ];
  const [title, path, all, one] = view;
  return one && parts.length ? [parts.join(" "), path, one] : [title, path, all];
}

// Out of the provider, too: else a click would let the next person in.
function signOut() {
  const url = login.logoutUrl();
  signIn();
  if (url) location.assign(url);
}

function signIn(reason = "") {
  shown.abort();
  key.forget();
  leave.hidden = nav.hidden = true;
  document.title = "Sign in · Ratchet";
  const input = el("input", {
    type: "password",
    name: "key",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const provider = el("div");
  main.replaceChildren(
    el(
      "div",
      { class: "signin" },
      el("h1", {}, "Sign in"),
      el(
        "p",
        {},
        "Paste an API key with the scope admin, train, release or read. It stays in this tab, until the tab is closed or you sign out.",
      ),
      reason && problem({ message: reason }),
      provider,
      form({ fields: field("API key", input), action: "Sign in", act: (data) => enter(data.get("key").trim()) }),
      el("p", { class: "note" }, "On the machine that runs the platform, the first key is in this file:"),
      el("pre", {}, el("code", {}, "cat ~/.ratchet/admin.key")),
      el("p", { class: "note" }, "Create more with it: ratchet keys create my-console --scope admin"),
    ),
  );
  input.focus();
  offer(provider);
}

async function offer(host) {
  const name = await login.provider().catch(() => "");
  const go = () => login.begin().catch((error) => signIn(error.message));
  if (name) host.append(button(`Sign in with ${name}`, go, "main"), el("p", { class: "note" }, "Or with a key:"));
}

async function enter(secret = key.get()) {
  if (secret) key.set(secret);
  try {
    await get("models", { page_size: 1 });
  } catch (error) {
    if (error.status === 401) return secret || signIn(); // with a key, it has led to the sign-in already
    if (error.status === 403)
      return signIn(
        "This sign-in is for completions. The console needs one with the scope read, train, release or admin.",
      );
    if (error.code !== "UNAVAILABLE") throw error; // a part is away: the views say so
  }
  leave.hidden = !key.get();
  await show();
}

async function start() {
  const answer = new URLSearchParams(location.search);
  if (answer.has("state")) {
    history.replaceState(null, "", location.pathname); // the code is for one use, and for no history
    try {
      history.replaceState(null, "", location.pathname + (await login.finish(answer)));
    } catch (error) {
      return signIn(error.message);
    }
  }
  await enter();
}

start().catch((error) =>
  main.replaceChildren(problem(error), el("button", { onclick: () => location.reload() }, "Try again")),
);
