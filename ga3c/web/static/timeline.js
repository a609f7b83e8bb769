/** The trace of the last seconds of a run, as a timeline by thread, with zoom by wheel and keys, and by dragging. */

import { at, getJson, post, told } from "./api.js";
import { button, element, fill, say } from "./element.js";
import { Paper } from "./paper.js";
import { number } from "./text.js";

/** @typedef {import("./types.js").Trace} Trace */

const LEAST_SPAN_US = 20; // the closest zoom shows so much
const HELP = "Click the timeline; then the wheel or + and − zoom, dragging or the arrows move.";
const STEP = 0.2; // of what is seen, for each press of an arrow

/** The part of a page, for the section of times. */
export class Timeline {
  /** @type {Trace | null} */
  #trace = null;
  /** @type {{from: number, to: number}} microseconds that are seen */
  #view = { from: 0, to: 1 };

  /** @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
  constructor(run, signal) {
    this.run = run;
    this.outcome = element("span", { role: "status", class: "note" });
    this.take = button("Trace the last seconds now", () => this.#take());
    this.load = button("Show the trace", () => this.#load());
    this.told = element("p", { class: "note told" });
    this.canvas = element("canvas", { tabindex: 0, role: "img", class: "timeline" });
    this.paper = new Paper(this.canvas, () => this.#draw(), signal);
    this.keys = element("div", { class: "legend" });
    this.shares = element("div", {});
    this.zooms = element("span", { class: "buttons" }, ...this.#buttons());
    this.body = element("div", { hidden: true }, this.keys, this.canvas, this.told, this.shares);
    this.element = element(
      "div",
      { class: "trace" },
      element("h3", {}, "Timeline by thread"),
      element("div", { class: "toolbar" }, this.take, this.load, this.zooms, this.outcome),
      this.body,
    );
    this.#listen(signal);
    run.changed.on(() => this.#offer(), signal);
    this.#offer();
  }

  /** Shows what can be done: only runs with --profile keep a trace. */
  #offer() {
    const { live, details } = this.run;
    this.take.hidden = !(live && live.profile > 0) || this.run.readonly;
    this.load.hidden = !details.files.trace || this.#trace !== null;
    this.zooms.hidden = this.#trace === null;
    if (this.take.hidden && this.load.hidden && !this.#trace)
      say(this.outcome, "There is no trace of this run: ga3c train --profile keeps one of its last seconds.");
  }

  async #take() {
    say(this.outcome, "Asking the run for its trace…");
    try {
      await post(at(this.run.id, "trace"), {});
      await this.#load();
    } catch (error) {
      say(this.outcome, told(error));
    }
  }

  async #load() {
    say(this.outcome, "Loading…");
    try {
      this.#show(await getJson(at(this.run.id, "trace")));
    } catch (error) {
      say(this.outcome, told(error));
    }
  }

  /** @param {Trace} trace */
  #show(trace) {
    this.#trace = trace;
    const spans = trace.tracks.reduce((sum, track) => sum + track.spans.length, 0);
    say(
      this.outcome,
      `${number(trace.seconds)} s of ${trace.tracks.length} threads and processes, ${number(spans)} spans`,
    );
    this.canvas.setAttribute(
      "aria-label",
      "Timeline by thread. Plus and minus zoom, arrows move, Home shows all. The table below has the shares of time.",
    );
    this.body.hidden = false;
    fill(this.shares, table(trace));
    this.paper.open(trace);
    fill(
      this.keys,
      ...this.paper.keys.map(({ name, colour }) =>
        element("span", { class: "entry" }, element("span", { class: `key ${colour}` }), name),
      ),
    );
    this.#move({ from: 0, to: trace.seconds * 1e6 });
    this.#offer();
  }

  #buttons() {
    return [
      button("+", () => this.#zoom(0.5, 0.5), { "aria-label": "Zoom into the timeline" }),
      button("−", () => this.#zoom(2, 0.5), { "aria-label": "Zoom out of the timeline" }),
      button("◀", () => this.#pan(-STEP), { "aria-label": "Earlier in the timeline" }),
      button("▶", () => this.#pan(STEP), { "aria-label": "Later in the timeline" }),
      button("All", () => this.#zoom(Infinity, 0.5)),
    ];
  }

  /** @param {AbortSignal} signal */
  #listen(signal) {
    const { canvas } = this;
    canvas.addEventListener(
      "wheel",
      (event) => {
        // Without the focus the wheel scrolls the page, as a reader who only passes by expects.
        if (document.activeElement !== canvas && !event.ctrlKey) return;
        event.preventDefault();
        if (event.deltaX && Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.#pan(event.deltaX / canvas.clientWidth);
        else this.#zoom(2 ** (event.deltaY / 240), this.paper.share(event.offsetX));
      },
      { passive: false, signal },
    );
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId), { signal });
    canvas.addEventListener(
      "pointermove",
      (event) => {
        if (canvas.hasPointerCapture(event.pointerId)) this.#pan(-event.movementX / this.paper.width);
        else this.#point(event.offsetX, event.offsetY);
      },
      { signal },
    );
    canvas.addEventListener(
      "keydown",
      (event) => {
        /** @type {Record<string, () => void>} */
        const keys = {
          "+": () => this.#zoom(0.5, 0.5),
          "=": () => this.#zoom(0.5, 0.5),
          "-": () => this.#zoom(2, 0.5),
          Home: () => this.#zoom(Infinity, 0.5),
          ArrowLeft: () => this.#pan(-STEP),
          ArrowRight: () => this.#pan(STEP),
        };
        const act = event.ctrlKey || event.metaKey ? null : keys[event.key];
        if (!act) return;
        event.preventDefault();
        act();
      },
      { signal },
    );
  }

  /** @param {number} factor @param {number} around the share of what is seen that stays in place */
  #zoom(factor, around) {
    const { from, to } = this.#view;
    const all = (this.#trace?.seconds ?? 0) * 1e6;
    const length = Math.min(all, Math.max(LEAST_SPAN_US, (to - from) * factor));
    const start = from + (to - from - length) * around;
    this.#move({ from: start, to: start + length });
  }

  /** @param {number} share of what is seen */
  #pan(share) {
    const by = (this.#view.to - this.#view.from) * share;
    this.#move({ from: this.#view.from + by, to: this.#view.to + by });
  }

  /** @param {{from: number, to: number}} view */
  #move({ from, to }) {
    const all = (this.#trace?.seconds ?? 0) * 1e6;
    const start = Math.max(0, Math.min(from, all - (to - from)));
    this.#view = { from: start, to: Math.min(all, start + (to - from)) };
    this.#draw();
  }

  #draw() {
    if (!this.#trace) return;
    this.paper.draw(this.#view);
    const { from, to } = this.#view;
    say(this.told, `${number((to - from) / 1000)} ms from ${number(from / 1000)} ms on. ${HELP}`);
  }

  /** Names the span under the pointer. @param {number} x @param {number} y */
  #point(x, y) {
    const found = this.paper.find(x, y, this.#view);
    if (found)
      say(
        this.told,
        `${found.track}: ${found.name}, ${number(found.length / 1000)} ms from ${number(found.start / 1000)} ms on`,
      );
  }
}

/** How much of its time each thread spent in what, for those who do not see the picture. @param {Trace} trace */
function table(trace) {
  const whole = trace.seconds * 1e6;
  const rows = trace.tracks.map((track) => {
    /** @type {Map<number, number>} */
    const sums = new Map();
    for (const [, length, name] of track.spans) sums.set(name, (sums.get(name) ?? 0) + length);
    const parts = [...sums]
      .sort((a, b) => b[1] - a[1])
      .map(([name, length]) => `${trace.names[name]} ${Math.round((100 * length) / whole)}%`);
    return element("tr", {}, element("th", { scope: "row" }, track.name), element("td", {}, parts.join(", ")));
  });
  const made = element(
    "table",
    {},
    element("caption", { class: "hidden" }, "Shares of time by thread"),
    element("tbody", {}, ...rows),
  );
  return element(
    "details",
    {},
    element("summary", {}, "Shares of time by thread"),
    element("div", { class: "scroll" }, made),
  );
}
