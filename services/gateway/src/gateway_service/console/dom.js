// Elements. Text is only ever put in as text: nothing here, or anywhere in the console, reads HTML from a string.

const SVG = "http://www.w3.org/2000/svg";

// el("a", { href: "#/runs", onclick: f, class: "quiet" }, "Runs", ...): an attribute that is null or false is left out.
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return node;
}

export function table(columns, rows, { caption, empty } = {}) {
  if (!rows.length && empty) return empty;
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          columns.map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((cells) =>
          el(
            "tr",
            {},
            cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : el("td", {}, cell ?? ""))),
          ),
        ),
      ),
    ),
  );
}

export const number = (text) => el("td", { class: "number" }, text);

export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value != null && value !== "")
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

// What there is to do where there is nothing to see.
export function empty(text, ...commands) {
  return el(
    "div",
    { class: "empty" },
    el("p", {}, text),
    commands.map((line) => el("pre", {}, el("code", {}, line))),
  );
}

export function problem(error) {
  const fields = (error.violations ?? []).map(({ field, description }) => el("li", {}, `${field} ${description}`));
  return el(
    "div",
    { class: "problem", role: "alert" },
    el("p", {}, error.message),
    fields.length > 0 && el("ul", {}, fields),
  );
}

export const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

export const button = (text, onclick, kind = "") => el("button", { type: "button", class: kind, onclick }, text);

// A field of a form with its label.
export function field(label, input, hint) {
  return el("label", { class: "field" }, el("span", {}, label), input, hint && el("small", {}, hint));
}

export function select(name, options, chosen) {
  return el(
    "select",
    { name },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(chosen) }, text ?? value)),
  );
}

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

// A form that shows what is wrong with it where it stands. `act(data)` gets its FormData.
export function form({ fields, action, act }) {
  const said = el("div");
  const submit = el("button", { type: "submit", class: "main" }, action);
  return el(
    "form",
    {
      class: "fields",
      async onsubmit(event) {
        event.preventDefault();
        submit.disabled = true;
        said.replaceChildren();
        try {
          await act(new FormData(event.target));
        } catch (error) {
          said.replaceChildren(problem(error));
        }
        submit.disabled = false;
      },
    },
    fields,
    said,
    el("div", { class: "actions" }, submit),
  );
}
