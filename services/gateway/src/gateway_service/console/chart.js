// Curves, by uPlot (vendor/). A curve is told by its dashes as well as by its colour.

import { el } from "./dom.js";
import { short } from "./format.js";

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [12, 4]];
const SERIES = 6;
const WHOLE = [1, 2, 5]
  .flatMap((digit) => [0, 1, 2, 3, 4, 5].map((power) => digit * 10 ** power))
  .sort((a, b) => a - b); // no step 1.5

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index) => token(`--series-${index % SERIES}`);
const drawn = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.redraw()));

export class Chart {
  // `options`: xlabel, time (x is seconds since 1970), log (y is, and what is not above 0 is left out), height, lines (values of y that are marked), step, range of y.
  constructor(title, options = {}) {
    this.options = options;
    this.host = el("div", { class: "plot" });
    this.node = el(
      "figure",
      { class: "chart", role: "group", "aria-label": title },
      el("figcaption", {}, title),
      this.host,
    );
    this.series = [];
    this.shape = "";
    this.resized = new ResizeObserver(() => this.plot?.setSize(this.#size()));
    this.resized.observe(this.host);
    drawn.add(this);
  }

  // `series`: [{ label, brief, points: [[x, y]], low: [y], high: [y] }]; with `low` and `high` it has a band. `brief`: for
  // the legend, where the label is long.
  draw(series) {
    this.series = series;
    const shape = JSON.stringify(series.map(({ label, low, hue }) => [label, !!low, hue]));
    const data = this.#data();
    if (this.plot && shape === this.shape) this.plot.setData(data);
    else this.#make(data, shape);
    const last = series.map(({ label, points }) => `${label} ${short(points.at(-1)?.[1])}`).join(", ");
    this.host.setAttribute("role", "img");
    this.host.setAttribute("aria-label", `Latest: ${last}`);
  }

  redraw() {
    if (this.plot) this.#make(this.#data(), this.shape);
  }

  remove() {
    this.resized.disconnect();
    this.plot?.destroy();
    drawn.delete(this);
    this.node.remove();
  }

  #data() {
    const data = aligned(this.series);
    if (!this.options.log) return data;
    return data.map((column, place) => (place ? column.map((y) => (y > 0 ? y : null)) : column));
  }

  #size() {
    return { width: Math.max(240, this.host.clientWidth), height: this.options.height ?? 190 };
  }

  #make(data, shape) {
    this.plot?.destroy();
    this.shape = shape;
    const { xlabel = "step", time = false, step = false, lines = [], range } = this.options;
    const axis = {
      stroke: token("--soft"),
      grid: { stroke: token("--line"), width: 1 },
      ticks: { stroke: token("--line") },
      font: "12px system-ui, sans-serif",
    };
    const columns = [{ label: xlabel, value: time ? undefined : (_, x) => (x == null ? "" : String(x)) }];
    const bands = [];
    this.series.forEach(({ label, brief = label, low, hue }, place) => {
      const index = hue ?? place;
      const paths = step ? uPlot.paths.stepped({ align: 1 }) : undefined;
      const value = (_, y) => (y == null ? "" : short(y));
      columns.push({
        label: brief,
        stroke: colour(index),
        width: 2,
        dash: DASHES[index % SERIES],
        spanGaps: true,
        paths,
        value,
        points: { size: 5 },
      });
      if (!low) return;
      const at = columns.length;
      const edge = { stroke: colour(index), width: 1, spanGaps: true, points: { show: false }, value };
      columns.push({ ...edge, label: "high" }, { ...edge, label: "low" });
      bands.push({ series: [at, at + 1], fill: `${colour(index)}2e` });
    });
    const around = (_, low, high) => {
      const [least, most] = [Math.min(low, ...lines), Math.max(high, ...lines)];
      const room = least === most ? Math.abs(least) || 1 : 0.1 * (most - least);
      return [least - room, most + room];
    };
    const marked = (plot) => {
      for (const y of lines) {
        const at = plot.valToPos(y, "y", true);
        const { left, top, width, height } = plot.bbox;
        if (at < top || at > top + height) continue;
        plot.ctx.save();
        plot.ctx.strokeStyle = token("--ink");
        plot.ctx.setLineDash([4, 4]);
        plot.ctx.beginPath();
        plot.ctx.moveTo(left, at);
        plot.ctx.lineTo(left + width, at);
        plot.ctx.stroke();
        plot.ctx.restore();
      }
    };
    this.plot = new uPlot(
      {
        ...this.#size(),
        series: columns,
        bands,
        scales: { x: { time }, y: this.options.log ? { distr: 3 } : { range: range ?? around } },
        axes: [
          { ...axis, size: time ? 48 : 34, incrs: time ? undefined : WHOLE },
          { ...axis, size: 58, values: (_, found) => found.map(short) },
        ],
        cursor: { drag: { x: true, y: false } },
        hooks: { draw: [marked] },
      },
      data,
      this.host,
    );
  }
}

// Columns as uPlot has them: the x of all series, then the values of each, null where it has none there.
function aligned(series) {
  const xs = [...new Set(series.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
  const columns = [xs];
  for (const { points, low, high } of series) {
    const places = new Map(points.map(([x], index) => [x, index]));
    const column = (values) => xs.map((x) => (places.has(x) ? values[places.get(x)] : null));
    columns.push(column(points.map(([, y]) => y)));
    if (low) columns.push(column(high), column(low));
  }
  return columns;
}
