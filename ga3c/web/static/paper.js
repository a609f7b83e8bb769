/** The canvas of a timeline: a line for each thread, and on it what the thread did. */

import { colour, readableOn, recoloured } from "./theme.js";

/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").Span} Span */
/** @typedef {{from: number, to: number}} View microseconds */

const [LINE, GAP, HEAD] = [17, 3, 20]; // heights of a thread's line, of the gap below, and of the axis
const LETTER = 6.5;
const LEAST_TEXT = 34; // a narrower span has no room for its name
const COLOURS = ["c2", "c0", "c3", "c5", "c1"];
/** @type {Record<string, string>} */
const RESTS = { wait: "faint", blocked: "held" };

export class Paper {
  /** @type {Trace | null} */
  #trace = null;
  /** Where the spans begin, from the left. */
  #left = 0;
  /** @type {string[]} */
  #colours = [];

  /** @param {HTMLCanvasElement} canvas @param {() => void} redraw @param {AbortSignal} signal */
  constructor(canvas, redraw, signal) {
    this.canvas = canvas;
    const observer = new ResizeObserver(redraw);
    observer.observe(canvas);
    signal.addEventListener("abort", () => observer.disconnect());
    recoloured.on(redraw, signal);
  }

  /** @param {Trace} trace */
  open(trace) {
    this.#trace = trace;
    const longest = Math.max(0, ...trace.tracks.map((track) => track.name.length));
    this.#left = Math.min(130, 12 + longest * LETTER);
    let next = 0;
    this.#colours = trace.names.map((name) => RESTS[name] ?? COLOURS[next++ % COLOURS.length]);
    this.canvas.style.height = `${HEAD + trace.tracks.length * (LINE + GAP)}px`;
  }

  /** The names of spans with their colours, as a legend. */
  get keys() {
    return (this.#trace?.names ?? []).map((name, i) => ({ name, colour: this.#colours[i] }));
  }

  /** Pixels for the spans. */
  get width() {
    return Math.max(1, this.canvas.clientWidth - this.#left);
  }

  /** The place of a pixel as a share of what is seen. @param {number} x */
  share(x) {
    return Math.min(1, Math.max(0, (x - this.#left) / this.width));
  }

  /** @param {View} view */
  draw(view) {
    const { canvas } = this;
    const context = canvas.getContext("2d");
    const trace = this.#trace;
    if (!context || !trace || !canvas.clientWidth) return;
    const ratio = devicePixelRatio;
    [canvas.width, canvas.height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
    context.scale(ratio, ratio);
    context.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    context.textBaseline = "middle";
    this.#axis(context, view);
    trace.tracks.forEach((track, i) => {
      const y = HEAD + i * (LINE + GAP);
      context.fillStyle = colour("soft");
      context.fillText(track.name, 0, y + LINE / 2, this.#left - 8);
      this.#line(context, track.spans, view, y);
    });
  }

  /**
   * The spans of a thread. Those narrower than a pixel are drawn once a pixel.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {Span[]} spans
   * @param {View} view
   * @param {number} y
   */
  #line(context, spans, view, y) {
    const scale = this.width / (view.to - view.from);
    let drawnTo = -1;
    for (let i = firstEndingAfter(spans, view.from); i < spans.length && spans[i][0] < view.to; i++) {
      const [start, length, name] = spans[i];
      const from = Math.max(0, (start - view.from) * scale);
      const to = Math.min(this.width, (start + length - view.from) * scale);
      if (to <= drawnTo) continue;
      const width = Math.max(1, to - from);
      drawnTo = width > 1 ? to : from + 1;
      context.fillStyle = colour(this.#colours[name]);
      context.fillRect(this.#left + from, y, width > 3 ? width - 0.5 : width, LINE);
      if (width > LEAST_TEXT) this.#text(context, name, this.#left + from, y, width);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} name
   * @param {number} x
   * @param {number} y
   * @param {number} width
   */
  #text(context, name, x, y, width) {
    const text = this.#trace?.names[name] ?? "";
    if (text.length * LETTER > width - 6) return;
    context.fillStyle = readableOn(this.#colours[name]);
    context.fillText(text, x + 4, y + LINE / 2);
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view */
  #axis(context, view) {
    const most = Math.max(2, Math.floor(this.width / 90));
    const rough = (view.to - view.from) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10);
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      const x = this.#left + ((tick - view.from) / (view.to - view.from)) * this.width;
      context.fillStyle = colour("faint");
      context.fillRect(x, HEAD - 6, 1, this.canvas.clientHeight);
      context.fillStyle = colour("soft");
      const text = `${Number((tick / 1000).toPrecision(8))} ms`;
      context.fillText(text, Math.min(x + 3, this.#left + this.width - context.measureText(text).width), HEAD / 2 - 2);
    }
  }

  /** The span at a pixel. @param {number} x @param {number} y @param {View} view */
  find(x, y, view) {
    const track = this.#trace?.tracks[Math.floor((y - HEAD) / (LINE + GAP))];
    if (!track || x < this.#left) return null;
    const time = view.from + this.share(x) * (view.to - view.from);
    const span = track.spans[firstEndingAfter(track.spans, time)];
    if (!span || span[0] > time) return null;
    return { track: track.name, name: this.#trace?.names[span[2]] ?? "", start: span[0], length: span[1] };
  }
}

/**
 * The place of the first span that ends after a time, among spans in order.
 *
 * @param {Span[]} spans
 * @param {number} time
 */
function firstEndingAfter(spans, time) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][0] + spans[middle][1] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
