/** A chart of curves over one x axis, drawn by uPlot, with a legend that tells the values under the pointer. */

import { element, fill, say, svg } from "./element.js";
import { last } from "./numbers.js";
import { clock, number } from "./text.js";
import { colour, faded, recoloured } from "./theme.js";
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {import("./types.js").Values} Values */
/** @typedef {import("./types.js").Axis} Axis */

/**
 * @typedef {{label: string, look: number, y: Values, raw?: Values, low?: Values, high?: Values}} Curve
 * `raw` is drawn faintly behind `y`, `low` and `high` as a band around it.
 *
 * @typedef {{
 *   title: string, note?: string, height: number, fromZero?: boolean, together?: string,
 *   zoom?: (from: number, to: number) => void, whole?: () => void
 * }} Options Charts with the same `together` share their pointer; `zoom` is told a dragged range of x, `whole` a double
 *   click.
 */

const COLOURS = 7;
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const AXIS_NAMES = { seconds: "training time", steps: "steps", frames: "frames" };
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

/** The colour of a line, by its place in the chart: after seven they repeat with other dashes. @param {number} look */
export function lineColour(look) {
  return `c${look % COLOURS}`;
}

/** A short piece of a line, as a key. @param {number} look */
export function lineKey(look) {
  const dash = DASHES[look % DASHES.length].join(" ") || null;
  const line = svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, class: `key ${lineColour(look)}`, "stroke-dasharray": dash });
  return svg("svg", { viewBox: "0 0 26 8", class: "key", "aria-hidden": "true" }, line);
}

export class Chart {
  /** @type {uPlot | null} */
  #plot = null;
  #structure = "";
  /** @type {number[]} */
  #x = [];
  /** @type {Curve[]} */
  #curves = [];
  /** @type {Axis} */
  #axis = "seconds";
  /** @type {HTMLElement[]} */
  #values = [];
  /** @type {{from: number, to: number} | null} */
  #range = null;

  /** @param {Options} options @param {AbortSignal} signal ends it */
  constructor(options, signal) {
    this.options = options;
    this.legend = element("span", { class: "legend" });
    this.box = element("div", { class: "plot", role: "img" });
    this.box.style.minHeight = `${options.height}px`;
    const caption = element(
      "figcaption",
      {},
      element("b", {}, options.title),
      " ",
      element("small", {}, options.note),
      this.legend,
    );
    this.figure = element("figure", { class: "chart", "data-chart": options.title }, caption, this.box);
    const observer = new ResizeObserver(() => this.#resize());
    observer.observe(this.box);
    recoloured.on(() => this.#plot?.redraw(false), signal);
    signal.addEventListener("abort", () => {
      observer.disconnect();
      this.#plot?.destroy();
    });
  }

  /**
   * Shows curves.
   *
   * @param {Axis} axis
   * @param {number[]} x
   * @param {Curve[]} curves
   * @param {{from: number, to: number} | null} [range] of x; null for all that there is
   */
  show(axis, x, curves, range = null) {
    [this.#axis, this.#x, this.#curves, this.#range] = [axis, x, curves, range];
    const structure = JSON.stringify([axis, curves.map((one) => [one.label, one.look, !!one.raw, !!one.low])]);
    if (structure !== this.#structure) {
      this.#structure = structure;
      this.#build();
    } else {
      this.#plot?.setData(/** @type {uPlot.AlignedData} */ (this.#data()));
    }
    this.#tell(null);
    this.box.classList.toggle("empty", !curves.some(({ y }) => last(y) !== null));
    this.box.setAttribute("aria-label", this.#words());
  }

  #data() {
    const rows = this.#curves.flatMap((one) => [
      ...(one.low && one.high ? [one.low, one.high] : []),
      ...(one.raw ? [one.raw] : []),
      one.y,
    ]);
    return [this.#x, ...rows];
  }

  #build() {
    this.#plot?.destroy();
    const { series, bands } = this.#series();
    const { options } = this;
    this.#plot = new uPlot(
      {
        width: Math.max(100, this.box.clientWidth),
        height: options.height,
        legend: { show: false },
        padding: [6, 10, 0, 0],
        cursor: {
          drag: { x: !!options.zoom, y: false, setScale: false, dist: 4 },
          sync: options.together ? { key: options.together } : undefined,
          points: { size: 5 },
          bind: { dblclick: () => () => (options.whole?.(), null) },
        },
        scales: {
          x: { time: false, range: (/** @type {unknown} */ _, low, high) => this.#xRange(low, high) },
          y: { range: (/** @type {unknown} */ _, low, high) => this.#yRange(low, high) },
        },
        axes: this.#axes(),
        series,
        bands,
        hooks: {
          setCursor: [(plot) => this.#tell(plot.cursor.idx ?? null)],
          setSelect: [(plot) => this.#select(plot)],
        },
      },
      /** @type {uPlot.AlignedData} */ (this.#data()),
      this.box,
    );
    this.#values = this.#curves.map(() => element("b", {}));
    fill(
      this.legend,
      ...this.#curves.map((one, i) =>
        element("span", { class: "entry" }, lineKey(one.look), ` ${one.label} `, this.#values[i]),
      ),
    );
  }

  #series() {
    /** @type {uPlot.Series[]} */
    const series = [{}];
    /** @type {uPlot.Band[]} */
    const bands = [];
    for (const one of this.#curves) {
      const name = lineColour(one.look);
      if (one.low && one.high) {
        bands.push({ series: [series.length + 1, series.length], fill: () => faded(name, 0.2) });
        series.push({ points: { show: false } }, { points: { show: false } });
      }
      if (one.raw) series.push({ stroke: () => faded(name, 0.3), width: 1, points: { show: false } });
      series.push({
        stroke: () => colour(name),
        width: 1.6,
        dash: DASHES[one.look % DASHES.length],
        points: { show: false },
        spanGaps: true,
      });
    }
    return { series, bands };
  }

  /** @returns {uPlot.Axis[]} */
  #axes() {
    const look = {
      stroke: () => colour("soft"),
      font: FONT,
      ticks: { show: false },
      grid: { stroke: () => colour("faint"), width: 1 },
    };
    const times = this.#axis === "seconds";
    /** @type {(plot: unknown, ticks: number[]) => string[]} */
    const label = (_, ticks) => ticks.map((tick) => (times ? shortClock(tick) : number(tick)));
    return [
      { ...look, size: 26, gap: 4, space: 64, values: label, incrs: times ? TIME_STEPS : undefined },
      {
        ...look,
        size: (_, texts) => 14 + 6.2 * longest(texts),
        gap: 5,
        space: 28,
        values: (_, ticks) => ticks.map(number),
      },
    ];
  }

  /** @param {number} low @param {number} high @returns {[number, number]} */
  #xRange(low, high) {
    if (this.#range) return [this.#range.from, this.#range.to];
    return low === high || low === null ? [(low ?? 0) - 1, (low ?? 0) + 1] : [low, high];
  }

  /** @param {number | null} low @param {number | null} high @returns {[number, number]} */
  #yRange(low, high) {
    if (low === null || high === null) return [0, 1];
    const least = this.options.fromZero ? Math.min(0, low) : low;
    const room = (high - least || Math.abs(high) || 1) * 0.06;
    return [this.options.fromZero && least === 0 ? 0 : least - room, high + room];
  }

  /** @param {uPlot} plot */
  #select(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    this.options.zoom?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  /** The values at a place of x, or the last ones. @param {number | null} place */
  #tell(place) {
    this.#curves.forEach((one, i) => say(this.#values[i], number(place === null ? last(one.y) : one.y[place])));
  }

  #resize() {
    const width = this.box.clientWidth;
    if (this.#plot && width > 0 && width !== this.#plot.width)
      this.#plot.setSize({ width, height: this.options.height });
  }

  /** What the chart shows, for those who do not see it. */
  #words() {
    const told = this.#curves.map((one) => {
      const there = /** @type {number[]} */ (one.y.filter((value) => value !== null));
      if (!there.length) return `${one.label}: no values`;
      const [low, high] = there.reduce(
        ([a, b], value) => [Math.min(a, value), Math.max(b, value)],
        [Infinity, -Infinity],
      );
      return `${one.label}: ${number(last(one.y))} now, lowest ${number(low)}, highest ${number(high)}`;
    });
    const end = this.#x.at(-1) ?? 0;
    const upTo = this.#axis === "seconds" ? clock(end) : number(end);
    return `${this.options.title}. ${told.join("; ")}. Up to ${upTo} ${AXIS_NAMES[this.#axis]}.`;
  }
}

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
];

/**
 * Time at a tick: 0:30 is half a minute; from an hour on, hours and minutes with their names.
 *
 * @param {number} seconds
 */
function shortClock(seconds) {
  const whole = Math.round(seconds);
  if (whole >= 3600)
    return `${Math.floor(whole / 3600)}h${whole % 3600 ? `${Math.floor(whole / 60) % 60}`.padStart(2, "0") : ""}`;
  return `${Math.floor(whole / 60)}:${`${whole % 60}`.padStart(2, "0")}`;
}

/** @param {string[] | null} texts */
function longest(texts) {
  return Math.max(0, ...(texts ?? []).map((text) => text.length));
}
