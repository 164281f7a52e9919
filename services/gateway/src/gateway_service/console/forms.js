// Forms, and questions before something is done. What the API finds wrong is shown at the field that it is about.

import { requestId } from "./api.js";
import { button, el, problem } from "./dom.js";

const CHECK_AFTER = 500; // milliseconds

// A field of a form with its label. An input says by `data-of` which fields of the request it is: "spec.steps".
export function field(label, inputs, hint) {
  const [input] = [inputs].flat();
  input.id = `field-${input.name}`;
  const about = hint && el("small", { id: `${input.id}-hint` }, hint);
  if (about) input.setAttribute("aria-describedby", about.id);
  return el("div", { class: "field" }, el("label", { for: input.id }, label), inputs, about);
}

export function select(name, options, chosen, attributes = {}) {
  return el(
    "select",
    { name, ...attributes },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(chosen) }, text ?? value)),
  );
}

// Any text, with some that are offered.
export function offered(name, value, options, attributes = {}) {
  const id = `offered-${name}`;
  return [
    el("input", { name, value, list: id, autocomplete: "off", spellcheck: "false", ...attributes }),
    el(
      "datalist",
      { id },
      options.map((text) => el("option", { value: text })),
    ),
  ];
}

export const numeric = (name, value, attributes = {}) =>
  el("input", { name, type: "number", min: "0", value, ...attributes });

// A field that is there only while `holds(value)` does, where value(name) is what the form has under a name.
const conditions = new WeakMap();
export const onlyWhen = (holds, label) => (conditions.set(label, holds), label);

function arrange(node) {
  const value = (name) => node.elements[name].value;
  for (const label of node.querySelectorAll(".field")) {
    const holds = conditions.get(label);
    if (!holds) continue;
    label.hidden = !holds(value);
    for (const input of label.querySelectorAll("input, select")) input.disabled = label.hidden;
  }
}

// `act(data, request_id)` gets the form's FormData, and one id for all tries until something is changed: what was made
// although its answer was lost is not made twice. `check(data)`, where there is one, looks at what was entered as it is
// entered; what it gives is shown.
export function form({ fields, action, act, check }) {
  const said = el("div"),
    checked = el("div", { "aria-live": "polite" });
  const submit = el("button", { type: "submit", class: "main" }, action);
  let request = requestId(),
    waiting,
    latest = 0;
  const node = el(
    "form",
    { class: "fields", onsubmit: send, onchange: changed, oninput: ({ target }) => unmark(target) },
    fields,
    el("div", {}, checked, said, el("div", { class: "actions" }, submit)),
  );

  function changed() {
    request = requestId();
    arrange(node);
    clearTimeout(waiting);
    if (check) waiting = setTimeout(look, CHECK_AFTER);
  }

  async function look() {
    if (!node.isConnected) return;
    const wrong = [...node.querySelectorAll("input:invalid")].filter((one) => one.value || one.validity.badInput);
    for (const one of wrong) mark(one, one.validationMessage);
    if (!node.checkValidity()) return;
    const mine = ++latest;
    let shown = "",
      failed;
    try {
      shown = await check(new FormData(node));
    } catch (error) {
      failed = error;
    }
    if (mine !== latest || submit.disabled) return; // something later is asked for
    clear(node);
    checked.replaceChildren(shown);
    said.replaceChildren(...(failed ? [shownAt(node, failed)] : []));
  }

  async function send(event) {
    event.preventDefault();
    clearTimeout(waiting);
    latest++;
    submit.disabled = true;
    said.replaceChildren();
    clear(node);
    try {
      await act(new FormData(node), request);
      request = requestId();
      node.reset();
      arrange(node);
    } catch (error) {
      said.replaceChildren(shownAt(node, error));
      node.querySelector("[aria-invalid]")?.focus();
    }
    submit.disabled = false;
  }

  arrange(node);
  return node;
}

// Marks stay until their field is changed, or the form is looked at again.
function mark(input, text) {
  unmark(input);
  const id = `${input.id}-wrong`;
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-errormessage", id);
  input.closest(".field").append(el("small", { class: "wrong", id }, text));
}

function unmark(input) {
  input.removeAttribute("aria-invalid");
  input.removeAttribute("aria-errormessage");
  for (const one of input.closest(".field")?.querySelectorAll(".wrong") ?? []) one.remove();
}

function clear(node) {
  for (const one of node.querySelectorAll("[aria-invalid]")) unmark(one);
}

// Puts each violation to its field; gives what is left to be said of the whole.
function shownAt(node, error) {
  const left = (error.violations ?? []).filter(({ field: name, description }) => {
    const input = [...node.querySelectorAll("[data-of]")].find(
      (one) => !one.disabled && one.dataset.of.split(" ").some((of) => within(name, of)),
    );
    if (!input) return true;
    mark(input, description);
    return false;
  });
  if (!error.violations?.length || left.length === error.violations.length) return problem(error);
  const message = left.length ? "Correct the marked fields above, and:" : "Correct the marked fields above.";
  return problem({ message, violations: left });
}

const within = (name, of) => name.startsWith(of) && ["", ".", "["].includes(name.charAt(of.length));

// Asks before something is done. `act(reason)` does it; its error is shown in the dialog. Resolves when the dialog is closed.
export function confirmed({ title, text, action, danger = false, reason = true, act }) {
  const said = el("div");
  const input = reason && el("input", { name: "reason", autocomplete: "off", maxlength: "200" });
  const doIt = el("button", { type: "submit", class: danger ? "danger" : "main" }, action);
  const dialog = el(
    "dialog",
    { "aria-label": title },
    el(
      "form",
      { method: "dialog", onsubmit: submit },
      el("h2", {}, title),
      el("p", {}, text),
      input && field("Reason, for the history", input),
      said,
      el(
        "div",
        { class: "actions" },
        button("Cancel", () => dialog.close(), "quiet"),
        doIt,
      ),
    ),
  );
  async function submit(event) {
    event.preventDefault();
    doIt.disabled = true;
    try {
      await act(input ? input.value : "");
      dialog.close();
    } catch (error) {
      said.replaceChildren(problem(error));
      doIt.disabled = false;
    }
  }
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => (dialog.remove(), resolve())));
}
