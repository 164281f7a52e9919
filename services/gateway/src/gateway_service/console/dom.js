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

// `all`: the command that lists what is not shown, where it was `cut`. With its roles spelled out: on a phone its rows are shown as cards, and would lose them.
export function table(columns, rows, { caption, empty, cut, all } = {}) {
  if (!rows.length && empty) return empty;
  const heads = columns.map((name) =>
    name ? el("th", { scope: "col", role: "columnheader" }, name) : el("td", { role: "cell" }),
  );
  const body = rows.map((cells) => {
    const found = cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : el("td", {}, cell)));
    found.forEach((cell, place) => (cell.setAttribute("role", "cell"), (cell.dataset.name = columns[place])));
    return el("tr", { role: "row" }, found);
  });
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      { role: "table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)),
      el("tbody", { role: "rowgroup" }, body),
    ),
    cut && el("p", { class: "note" }, `The newest ${rows.length} are shown. All of them: `, el("code", {}, all)),
  );
}

// A cell of words, which has room for some of them in a line.
export const words = (text) => el("td", { class: "text" }, text);
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
