// What forms offer to choose from.

import { get, list } from "../api.js";
import { version } from "../format.js";
import { to } from "./parts.js";

// Names that a spec may say: { algorithms, rewards, problem_sets, benchmarks, measures }.
// Among the sets are the splits of the data sets of problems that are ready.
export async function catalogue(signal) {
  const [known, datasets] = await Promise.all([get("catalogue", {}, signal), list("datasets", "datasets", { signal })]);
  const splits = datasets
    .filter((one) => one.state === "STATE_READY" && !one.card?.edition && !one.card?.pairs && !one.card?.folders)
    .flatMap((one) => one.splits.map((split) => `${one.name}@${one.number}/${split.name}`));
  return { ...known, problem_sets: [...splits, ...known.problem_sets] };
}

export const modelsOf = async (signal, name) =>
  (await list("models", "models", { signal })).filter((one) => !name || one.name === name);

// The versions of some models that are ready: { ref, name }, by name and number.
export async function readyVersions(models, signal) {
  const all = await Promise.all(models.map((one) => list(to("models", one.name, "versions"), "versions", { signal })));
  return all
    .flat()
    .filter((one) => one.state === "STATE_READY")
    .map(({ ref }) => ({ ref, name: version(ref) }))
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

// "a, b" as a list.
export const parts = (text) =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
