// What forms offer to choose from.

import { list } from "../api.js";
import { version } from "../format.js";
import { to } from "./parts.js";

// Sets that Ratchet makes itself, and benchmarks whose data are fetched; the path of a file is another choice.
export const OWN_SETS = ["composed/train", "composed/validation", "composed/test", "composed/demonstrations", "basics"];
export const BENCHMARKS = [
  "humaneval",
  "humaneval+",
  "mbpp",
  "mbpp-sanitized",
  "mbpp+",
  "bigcodebench",
  "bigcodebench-hard",
  "codecontests",
  "apps",
  "leetcode",
];

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
