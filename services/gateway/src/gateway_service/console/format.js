// How things are written: numbers, times, names.

export function short(value) {
  if (value == null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e6 || size < 1e-4) return value.toExponential(1);
  return size >= 1000 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString();
}

export const count = (text) => Number(text ?? 0).toLocaleString("en");
export const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(3);
export const interval = (it, write = (x) => x.toFixed(3)) => `${write(it.value)} [${write(it.low)}, ${write(it.high)}]`;
export const percentOf = (share) => `${(100 * share).toFixed(1)} %`;

export function span(seconds) {
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// Of protobuf's JSON: "3.5s".
export const seconds = (text) => (text == null ? null : Number.parseFloat(text));

export function ago(text) {
  if (!text) return "";
  const passed = (Date.now() - Date.parse(text)) / 1000;
  return passed < 5 ? "now" : `${span(passed)} ago`;
}

export function between(start, end) {
  return start ? span(((end ? Date.parse(end) : Date.now()) - Date.parse(start)) / 1000) : "";
}

export const clock = (text) => (text ? new Date(text).toLocaleString() : "");

// An enum's value in words: "STATE_ROLLED_BACK" with the prefix "STATE_" is "rolled back".
export const word = (value, prefix = "STATE_") => (value ?? "").replace(prefix, "").replaceAll("_", " ").toLowerCase();

// Of an experiment's metric: its name, where it has one of its own.
export const metricName = ({ measure, name }) => name || word(measure, "MEASURE_");

export const version = (ref) => (ref?.number ? `${ref.model}@${ref.number}` : "");

export function model(ref) {
  if (!ref) return "";
  return ref.version
    ? version(ref.version)
    : ref.alias
      ? `${ref.alias.model}:${ref.alias.alias}`
      : ref.model || ref.uri || "";
}

// Of a hash: enough to tell two apart.
export const digest = (text) => (text ?? "").replace("sha256:", "").slice(0, 12);

const GOOD = [
  "ready",
  "running",
  "succeeded",
  "serving",
  "passed",
  "concluded",
  "progressing",
  "watching",
  "promoting",
  "better",
  "holds",
];
const BAD = ["failed", "rolled back", "not serving", "away", "refused", "falling back", "broken", "worse"];
export const mood = (state) => (BAD.includes(state) ? "bad" : GOOD.includes(state) ? "good" : "plain");
