// What changes while it is looked at.

import { sleep } from "./api.js";
import { button, el, problem } from "./dom.js";

const waiting = new WeakMap();

// What is drawn in a host is loaded again now: something was done to it.
export const refresh = (host) => waiting.get(host)?.();

// Draws what `load` gives, and again whenever that has changed, until the view is left. What was drawn stays while the
// platform does not answer, and a line above says so.
export async function live(host, signal, load, draw, seconds = 5) {
  const said = el("div", { "aria-live": "polite" });
  const body = el("div", { "aria-busy": "true" }, el("p", { class: "note" }, "Loading …"));
  host.append(said, body);
  let last;
  while (!signal.aborted) {
    try {
      const found = await load();
      if (signal.aborted) return;
      said.replaceChildren();
      const text = JSON.stringify(found);
      if (text !== last) {
        keepingFocus(body, () => body.replaceChildren(...[draw(found)].flat().filter(Boolean)));
        body.removeAttribute("aria-busy");
        last = text;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (last === undefined) body.replaceChildren();
      said.replaceChildren(problem(error));
    }
    await Promise.race([sleep(seconds, signal), new Promise((again) => waiting.set(host, again))]);
  }
}

// Puts what `load` gives where it belongs. If it fails, the reason is there, and a button that asks again.
export async function later(host, load) {
  const waits = el("div", { "aria-live": "polite" }, el("p", { class: "note" }, "Loading …"));
  host.append(waits);
  try {
    waits.replaceWith(await load());
  } catch (error) {
    waits.replaceChildren(
      problem(error),
      button("Try again", () => (waits.remove(), later(host, load))),
    );
  }
}

// Who works by keyboard stays where they are: on the element of the same address or name.
export function keepingFocus(host, change) {
  const held = host.contains(document.activeElement) ? document.activeElement : null;
  const mark =
    held &&
    (held.id
      ? `#${CSS.escape(held.id)}`
      : held.getAttribute("href")
        ? `a[href="${CSS.escape(held.getAttribute("href"))}"]`
        : held.name
          ? `[name="${CSS.escape(held.name)}"]`
          : null);
  change();
  if (mark) host.querySelector(mark)?.focus({ preventScroll: true });
}
