/** The curves of a run, with zoom and smoothing, over time, steps or frames. */

import { at, getJson } from "./api.js";
import { Chart } from "./chart.js";
import { button, element, section } from "./element.js";
import { last, resampled, smoothed } from "./numbers.js";
import { OTHERS, SCORE, SPEED } from "./panels.js";
import { repeat, whileVisible } from "./visible.js";

/** @typedef {import("./types.js").Axis} Axis */
/** @typedef {import("./types.js").Series} Series */
/** @typedef {import("./panels.js").Panel} Panel */
/** @typedef {{axis: Axis, smoothing: number, zoom: {from: number, to: number} | null}} Show */

const AXES = /** @type {const} */ ([
  ["seconds", "time"],
  ["steps", "steps"],
  ["frames", "frames"],
]);
const LARGE = { height: 250, points: 800 };
const SMALL = { height: 150, points: 300 };
const SPREAD = { points: 80, episodes: 8 }; // at most so many points, each of at least so many episodes
const REFETCH_MS = 20_000; // snapshots are added as they come; after so long the server thins everything out again
const LEAST_SMOOTHING = 0.5; // the slider's first step; less is hardly seen

/** One chart with its data. */
class Plot {
  /** @type {Series | null} */
  #data = null;
  /** @type {{x: number[], low: import("./types.js").Values, high: import("./types.js").Values} | null} */
  #spread = null;
  /** What the data was asked for with. @type {Show | null} */
  #asked = null;
  /** Episodes of the run, as far as is known. */
  #episodes = 0;

  /**
   * @param {Panel} panel
   * @param {import("./watched.js").Watched} run
   * @param {Curves} curves
   * @param {AbortSignal} signal
   */
  constructor(panel, run, curves, signal) {
    this.panel = panel;
    this.run = run;
    this.curves = curves;
    this.size = panel === SCORE ? LARGE : SMALL;
    const { title, note, fromZero } = panel;
    const zoom = (/** @type {number} */ from, /** @type {number} */ to) => curves.zoomTo({ from, to });
    this.chart = new Chart(
      { title, note, fromZero, height: this.size.height, together: run.id, zoom, whole: () => curves.zoomTo(null) },
      signal,
    );
    // A chart without values is hidden, so it does not see itself when the first ones come.
    run.snapshots.on((snapshot) => {
      const has = panel.columns.some(([name]) => snapshot[name] !== null && snapshot[name] !== undefined);
      if (has) this.chart.figure.classList.remove("nothing");
    }, signal);
    whileVisible(
      this.chart.figure,
      signal,
      (seen) => {
        repeat(() => this.#keep(seen), REFETCH_MS, seen);
        curves.changed.add(this);
        run.snapshots.on((snapshot) => this.#append(snapshot), seen);
        seen.addEventListener("abort", () => curves.changed.delete(this));
      },
      "100px",
    );
  }

  /** Fetches what may have changed. @param {AbortSignal} signal */
  async #keep(signal) {
    const { axis, zoom } = this.curves.show;
    const isSame = this.#asked?.axis === axis && this.#asked.zoom === zoom;
    if (!isSame || !this.run.isOver) await this.fetch(signal);
    else this.draw();
  }

  /** @param {AbortSignal} signal */
  async fetch(signal) {
    const { axis, zoom } = this.curves.show;
    const range = { x: axis, points: this.size.points, from: zoom?.from, to: zoom?.to };
    const names = this.panel.columns.map(([name]) => name).join(",");
    try {
      const wanted = [getJson(at(this.run.id, "series", { y: names, ...range }), signal)];
      if (this.panel === SCORE) wanted.push(this.#fetchSpread(range, signal));
      const [data, episodes] = await Promise.all(wanted);
      if (axis !== this.curves.show.axis || zoom !== this.curves.show.zoom) return; // too late
      this.#data = data;
      this.#asked = { ...this.curves.show };
      if (!zoom) this.curves.end = Math.max(this.curves.end, data.x.at(-1) ?? 0);
      const { low, high } = episodes?.y.score ?? {};
      this.#spread = episodes?.x.length ? { x: episodes.x, low, high } : null;
    } catch {
      return; // the page says that the connection is lost, and comes back
    }
    this.draw();
  }

  /**
   * @param {Record<string, string | number | undefined>} range
   * @param {AbortSignal} signal
   * @returns {Promise<Series>}
   */
  async #fetchSpread(range, signal) {
    const known = Math.max(this.#episodes, this.run.snapshot?.episodes ?? 0);
    const points = known ? Math.max(2, Math.min(SPREAD.points, Math.floor(known / SPREAD.episodes))) : SPREAD.points;
    const answer = await getJson(at(this.run.id, "episodes", { ...range, points }), signal);
    const isFirst = !known && answer.rows < SPREAD.points * SPREAD.episodes;
    this.#episodes = answer.rows;
    return isFirst && answer.rows ? this.#fetchSpread(range, signal) : answer;
  }

  draw() {
    const { axis, smoothing, zoom } = this.curves.show;
    const { columns, scale = 1 } = this.panel;
    const data = this.#data;
    if (!data) return;
    const shown = columns.filter(([name]) => data.y[name] && last(data.y[name].mean) !== null);
    this.chart.figure.classList.toggle("nothing", !shown.length);
    const curves = shown.map(([name, label]) => {
      const { mean, low, high } = data.y[name];
      const scaled = (/** @type {import("./types.js").Values} */ values) =>
        values.map((value) => (value === null ? null : value * scale));
      const own = this.#spread
        ? {
            low: resampled(this.#spread.x, this.#spread.low, data.x),
            high: resampled(this.#spread.x, this.#spread.high, data.x),
          }
        : last(low) !== null && columns.length === 1
          ? { low: scaled(low), high: scaled(high) }
          : {};
      const y = scaled(mean);
      return {
        label,
        look: columns.findIndex(([one]) => one === name),
        y: smoothed(y, smoothing),
        ...(smoothing ? { raw: y } : {}),
        ...own,
      };
    });
    this.chart.show(axis, data.x, curves, zoom);
  }

  /** @param {import("./types.js").Snapshot} snapshot */
  #append(snapshot) {
    const { axis, zoom } = this.curves.show;
    const x = snapshot[axis];
    const data = this.#data;
    if (!data || x === null || x === undefined || x <= (data.x.at(-1) ?? -1) || (zoom && x > zoom.to)) return;
    data.x.push(x);
    for (const [name] of this.panel.columns) {
      const spread = data.y[name];
      if (!spread) continue;
      spread.mean.push(snapshot[name] ?? null);
      spread.low.push(null);
      spread.high.push(null);
    }
    this.draw();
  }
}

/** Both sections of curves, with one zoom, smoothing and axis for all charts. */
export class Curves {
  /** @type {Show} */
  show = { axis: "seconds", smoothing: 0, zoom: null };
  /** Charts on the screen, which follow a change at once. @type {Set<Plot>} */
  changed = new Set();
  /** The greatest x that is known of the present axis. */
  end = 0;
  whole = button("All", () => this.zoomTo(null), { disabled: true });
  #signal;

  /** @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
  constructor(run, signal) {
    this.run = run;
    this.#signal = signal;
    const figures = (/** @type {Panel[]} */ panels) =>
      panels.map((panel) => new Plot(panel, run, this, signal).chart.figure);
    this.first = section(
      "score",
      "Score and speed",
      this.#toolbar(),
      ...figures([SCORE]),
      element("div", { class: "charts" }, ...figures(SPEED)),
    );
    this.others = section("curves", "All other curves", element("div", { class: "charts" }, ...figures(OTHERS)));
    run.missed.on(() => this.#fetch(), signal);
  }

  /** @param {{from: number, to: number} | null} zoom */
  zoomTo(zoom) {
    this.show.zoom = zoom;
    this.whole.disabled = !zoom;
    this.#fetch();
  }

  #fetch() {
    for (const plot of this.changed) plot.fetch(this.#signal);
  }

  #toolbar() {
    const zooms = [
      button("+", () => this.#move(0.25, -0.25), { "aria-label": "Zoom in" }),
      button("−", () => this.#move(-0.5, 0.5), { "aria-label": "Zoom out" }),
      button("◀", () => this.#move(-0.25, -0.25), { "aria-label": "Earlier" }),
      button("▶", () => this.#move(0.25, 0.25), { "aria-label": "Later" }),
    ];
    const hint = element("small", { class: "hint" }, "drag to zoom, double click for all");
    return element(
      "div",
      { class: "toolbar", role: "group", "aria-label": "All curves" },
      this.#axes(),
      this.#smoothing(),
      element("span", { class: "buttons" }, ...zooms, this.whole),
      hint,
    );
  }

  #axes() {
    const choice = element(
      "select",
      {},
      ...AXES.map(([name, label]) => element("option", { value: name }, `over ${label}`)),
    );
    choice.setAttribute("aria-label", "x axis");
    choice.addEventListener("change", () => {
      this.show.axis = /** @type {Axis} */ (choice.value);
      this.end = 0;
      this.zoomTo(null);
    });
    return choice;
  }

  #smoothing() {
    const slider = element("input", { type: "range", min: 0, max: 10, step: 1, value: 0 });
    slider.addEventListener("input", () => {
      const place = Number(slider.value);
      this.show.smoothing = place ? 1 - (1 - LEAST_SMOOTHING) * 2 ** -((place - 1) / 1.5) : 0;
      for (const plot of this.changed) plot.draw();
    });
    return element("label", {}, "smoothing ", slider);
  }

  /** Moves the ends of the range by shares of its length. @param {number} start @param {number} end */
  #move(start, end) {
    const most = Math.max(this.end, this.run.snapshot?.[this.show.axis] ?? 0);
    const { from, to } = this.show.zoom ?? { from: 0, to: most };
    const length = to - from;
    const [low, high] = [Math.max(0, from + start * length), Math.min(most, to + end * length)];
    if (low <= 0 && high >= most) this.zoomTo(null);
    else if (high > low) this.zoomTo({ from: low, to: high });
  }
}
