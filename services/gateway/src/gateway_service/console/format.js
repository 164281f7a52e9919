// How things are written: numbers, times, names.

import { el } from "./dom.js";

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

export function bytes(text) {
  const size = Number(text);
  return size >= 2 ** 30 ? `${(size / 2 ** 30).toFixed(1)} GiB` : `${Math.round(size / 2 ** 20)} MiB`;
}

export function span(seconds) {
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// Of protobuf's JSON: "3.5s".
export const seconds = (text) => (text == null ? null : Number.parseFloat(text));

// Times that pass while they are looked at are told anew. With the moment itself where the mouse rests.
const AGAIN = 5_000;
const passing = new WeakMap();
setInterval(() => {
  for (const node of document.querySelectorAll("time")) if (passing.has(node)) node.textContent = passing.get(node)();
}, AGAIN);

function told(moment, words) {
  const node = el("time", { datetime: moment, title: clock(moment) }, words());
  passing.set(node, words);
  return node;
}

const since = (moment) => (Date.now() - Date.parse(moment)) / 1000;

export function ago(moment) {
  return moment ? told(moment, () => (since(moment) < 5 ? "now" : `${span(since(moment))} ago`)) : "";
}

export function between(start, end) {
  if (!start) return "";
  return end ? span(since(start) - since(end)) : told(start, () => span(since(start)));
}

// Of a run or an evaluation: devices, processors, sandbox and tokens; its cost, where there are prices.
export function used(usage) {
  const time = (text, words) => (seconds(text) ? `${span(seconds(text))} of ${words}` : "");
  const tokens = Number(usage?.prompt_tokens)
    ? `${count(usage.prompt_tokens)} tokens in, ${count(usage.completion_tokens)} out`
    : "";
  const parts = [
    time(usage?.gpu_time, `GPU${busy(usage)}`),
    time(usage?.cpu_time, "CPU"),
    time(usage?.sandbox_time, "CPU in the sandbox"),
    tokens,
  ];
  return parts.filter(Boolean).join(", ");
}

function busy(usage) {
  const watched = seconds(usage?.gpu_watched_time);
  return watched ? ` (${Math.round((100 * seconds(usage.gpu_busy_time)) / watched)} % busy)` : "";
}

export function waiting(usage) {
  const [whole, waited] = [seconds(usage?.wall_time), seconds(usage?.wait_time)];
  return whole && waited ? `${Math.round((100 * waited) / whole)} % of ${span(whole)} for samples` : "";
}

export const money = (amount, currency) => `${amount >= 0.1 ? amount.toFixed(2) : short(amount)} ${currency}`;
export function cost(usage, budget, answers) {
  if (usage?.cost == null) return "";
  const each = answers ? `, ${money((1000 * usage.cost) / answers, usage.currency)} for 1,000 answers` : "";
  return `${money(usage.cost, usage.currency)}${budget ? ` of ${budget}` : ""}${each}`;
}

// The sum of several costs, and its part for each percentage point of the gained share.
export function together(usages, gained) {
  const priced = usages.filter((usage) => usage?.cost != null);
  if (!priced.length) return "";
  const [whole, { currency }] = [priced.reduce((sum, usage) => sum + usage.cost, 0), priced.at(-1)];
  const each = gained > 0 ? `, ${money(whole / (100 * gained), currency)} for each point gained` : "";
  return money(whole, currency) + each;
}

// A forecast: the cost where there are prices, or else the time, and what is used.
export function expected(usage) {
  if (!usage) return "";
  return [`about ${cost(usage) || span(seconds(usage.wall_time))}`, used(usage)].filter(Boolean).join(", ");
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
  "valid",
  "passed",
  "concluded",
  "progressing",
  "watching",
  "promoting",
  "better",
  "holds",
];
const BAD = [
  "failed",
  "revoked",
  "expired",
  "rolled back",
  "not serving",
  "away",
  "refused",
  "falling back",
  "broken",
  "worse",
];
export const mood = (state) => (BAD.includes(state) ? "bad" : GOOD.includes(state) ? "good" : "plain");
