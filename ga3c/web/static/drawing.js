/** The engine as a drawing, as in figure 1 of the paper. What it shows comes from engine.js. */

import { fill, say, svg } from "./element.js";
import { Flow, animate } from "./flow.js";
import { LAYOUTS } from "./layout.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Place} Place */
/** @typedef {import("./layout.js").Box} Box */

/**
 * @typedef {{word: string, part: number, mark: "work" | "wait" | "held"}} Share A part of a stage's time, 0 to 1.
 * @typedef {{title: string, notes: string[], shares: Share[], pips: {on: number, of: number} | null}} Stage
 *   `pips` are the threads or agents at work, of as many as could be.
 * @typedef {{title: string, note: string, fill: Array<number | null>, capacity: number}} Queue `fill`: from old to new.
 * @typedef {{text: string, rate: number | null}} Rate
 * @typedef {{
 *   stages: Record<"agents" | "predictors" | "trainers" | "model", Stage>,
 *   queues: Record<"prediction queue" | "training queue", Queue>,
 *   rates: Record<string, Rate>, lit: Place | null, words: string
 * }} Picture `words` tell the whole for those who do not see it.
 */

const STAGES = /** @type {const} */ (["agents", "predictors", "trainers", "model"]);
const QUEUES = /** @type {const} */ (["prediction queue", "training queue"]);
const MOST_PIPS = { agents: 64, predictors: 10, trainers: 10, model: 0 };
const LETTER = 6.4; // width of a letter of a legend

/** Both layouts of the drawing; the style sheet shows the one that fits. */
export class Drawing {
  #shown = "";

  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.sheets = LAYOUTS.map((layout) => new Sheet(layout, signal));
  }

  get elements() {
    return this.sheets.map((sheet) => sheet.element);
  }

  /** @param {Picture} picture */
  show(picture) {
    const key = JSON.stringify(picture);
    if (key === this.#shown) return;
    this.#shown = key;
    for (const sheet of this.sheets) sheet.show(picture);
  }
}

class Sheet {
  /** @param {Layout} layout @param {AbortSignal} signal */
  constructor(layout, signal) {
    const { boxes, ways } = layout;
    this.flows = new Map(Object.entries(ways).map(([name, way]) => [name, new Flow(path(way.points))]));
    this.texts = new Map(Object.entries(ways).map(([name, way]) => [name, wayText(way)]));
    this.stages = STAGES.map((name) => /** @type {const} */ ([name, new StageBox(name, boxes[name], layout)]));
    this.queues = QUEUES.map((name) => /** @type {const} */ ([name, new QueueBox(boxes[name])]));
    this.words = svg("desc");
    this.element = svg(
      "svg",
      { viewBox: `0 0 ${layout.width} ${layout.height}`, class: `engine ${layout.name}`, role: "img" },
      svg("title", {}, "The engine"),
      this.words,
      ...Object.entries(ways).map(([name, way]) =>
        svg(
          "g",
          { class: way.learns ? "way learns" : "way", "data-way": name },
          svg("path", { d: path(way.points), class: "line" }),
          svg("path", { d: head(way.points), class: "head" }),
          /** @type {Flow} */ (this.flows.get(name)).dots,
          /** @type {SVGElement} */ (this.texts.get(name)),
        ),
      ),
      ...this.stages.map(([, stage]) => stage.group),
      ...this.queues.map(([, queue]) => queue.group),
    );
    animate(this.element, [...this.flows.values()], signal);
  }

  /** @param {Picture} picture */
  show(picture) {
    for (const [name, stage] of this.stages) stage.show(picture.stages[name], picture.lit === name);
    for (const [name, queue] of this.queues) queue.show(picture.queues[name]);
    for (const [name, flow] of this.flows) {
      const { text, rate } = picture.rates[name];
      flow.rate = rate;
      say(/** @type {SVGElement} */ (this.texts.get(name)), text);
    }
    say(this.words, picture.words);
  }
}

/** The box of agents, predictors, trainers or the model. */
class StageBox {
  /** @param {typeof STAGES[number]} name @param {Box} box @param {Layout} layout */
  constructor(name, box, layout) {
    this.box = box;
    this.most = MOST_PIPS[name];
    this.tall = layout.name === "across" && box.height > 200;
    this.frame = svg("rect", { ...box, rx: 6, class: "frame" });
    this.title = svg("text", { x: box.x + 14, y: box.y + 26, class: "title" });
    this.notes = svg("g");
    this.shares = svg("g");
    this.pips = svg("g", { class: "pips" });
    this.group = svg(
      "g",
      { class: "stage", "data-place": name },
      this.frame,
      this.title,
      this.notes,
      this.pips,
      this.shares,
      limit(box),
    );
  }

  /** @param {Stage} stage @param {boolean} lit */
  show(stage, lit) {
    const x = this.box.x + 14;
    let y = this.box.y + 26;
    this.group.classList.toggle("lit", lit);
    say(this.title, stage.title);
    fill(this.notes, ...stage.notes.map((note) => svg("text", { x, y: (y += 18), class: "soft" }, note)));
    fill(this.shares, ...bar(stage.shares, { x, y: y + 12, width: this.box.width - 28, height: 14 }));
    this.#showPips(stage.pips);
  }

  /** Small squares, full for those at work: beside the title, or of agents in rows at the bottom of their tall box. */
  #showPips(/** @type {Stage["pips"]} */ pips) {
    const many = this.most > 10;
    if (!pips || pips.of > this.most || (many && !this.tall)) return fill(this.pips);
    const size = many ? 13 : 9;
    const step = size + (many ? 9 : 4);
    const across = many ? Math.floor((this.box.width - 28 + step - size) / step) : pips.of;
    const left = many ? this.box.x + 14 : this.box.x + this.box.width - 14 - pips.of * step + step - size;
    const rows = Math.ceil(pips.of / across);
    const top = many ? this.box.y + this.box.height - 14 - rows * step + step - size : this.box.y + 16;
    const squares = Array.from({ length: pips.of }, (_, i) =>
      svg("rect", {
        x: left + (i % across) * step,
        y: top + Math.floor(i / across) * step,
        width: size,
        height: size,
        rx: 2,
        class: i < pips.on ? "pip on" : "pip",
      }),
    );
    fill(this.pips, ...squares);
  }
}

/** The box of a queue: how full it was, from left (older) to right (now). */
class QueueBox {
  /** @param {Box} box */
  constructor(box) {
    this.inner = { x: box.x + 14, y: box.y + 54, width: box.width - 28, height: box.height - 66 };
    this.title = svg("text", { x: box.x + 14, y: box.y + 26, class: "title" });
    this.note = svg("text", { x: box.x + 14, y: box.y + 44, class: "soft" });
    this.area = svg("path", { class: "fill queued" });
    this.group = svg(
      "g",
      { class: "queue" },
      svg("rect", { ...box, rx: 6, class: "frame" }),
      this.title,
      this.note,
      svg("rect", { ...this.inner, class: "empty" }),
      this.area,
    );
  }

  /** @param {Queue} queue */
  show(queue) {
    say(this.title, queue.title);
    say(this.note, queue.note);
    this.area.setAttribute("d", this.#area(queue));
  }

  /** @param {Queue} queue */
  #area({ fill: values, capacity }) {
    if (values.length < 2 || !(capacity > 0)) return "";
    const { x, y, width, height } = this.inner;
    const base = y + height;
    const points = values.map((value, i) => {
      const share = Math.min(1, Math.max(0, (value ?? 0) / capacity));
      return `${(x + (width * i) / (values.length - 1)).toFixed(1)} ${(base - share * height).toFixed(1)}`;
    });
    return `M${x} ${base}L${points.join("L")}L${x + width} ${base}Z`;
  }
}

/** The label of the stage that limits the run, over the edge of its box; the style sheet shows it where it is lit. */
function limit(/** @type {Box} */ box) {
  const width = 106;
  const left = box.x + box.width - width - 12;
  return svg(
    "g",
    { class: "limits" },
    svg("rect", { x: left, y: box.y - 10, width, height: 20, rx: 10 }),
    svg("text", { x: left + width / 2, y: box.y + 4, "text-anchor": "middle" }, "limits the run"),
  );
}

/** A bar whose full width is all time, with its legend below. @param {Share[]} shares @param {Box} box */
function bar(shares, box) {
  /** @type {SVGElement[]} */
  const drawn = [];
  let start = box.x;
  for (const { part, mark } of shares) {
    const width = Math.max(0, Math.min(part * box.width, box.x + box.width - start));
    drawn.push(
      svg("rect", {
        x: start.toFixed(1),
        y: box.y,
        width: width.toFixed(1),
        height: box.height,
        class: `fill ${mark}`,
      }),
    );
    start += width;
  }
  let [x, y] = [box.x, box.y + box.height + 17];
  for (const { word, part, mark } of shares) {
    const text = `${word} ${Math.round(100 * part)}%`;
    const room = 24 + LETTER * text.length;
    if (x > box.x && x + room > box.x + box.width + 12) [x, y] = [box.x, y + 16];
    drawn.push(
      svg("rect", { x, y: y - 8, width: 8, height: 8, class: `fill ${mark}` }),
      svg("text", { x: x + 12, y, class: "small" }, text),
    );
    x += room;
  }
  return drawn;
}

/** @param {import("./layout.js").Way} way */
function wayText({ text: [x, y], anchor = "middle", turned }) {
  return svg("text", { x, y, "text-anchor": anchor, transform: turned ? `rotate(-90 ${x} ${y})` : null });
}

/** @param {Array<[number, number]>} points */
function path(points) {
  return `M${points.map(([x, y]) => `${x} ${y}`).join("L")}`;
}

/** The head of an arrow. @param {Array<[number, number]>} points */
function head(points) {
  const [[a, b], [x, y]] = points.slice(-2);
  const [along, down] = [Math.sign(x - a), Math.sign(y - b)];
  const [back, side] = [7, 4];
  return (
    path([
      [x - back * along - side * down, y - back * down - side * along],
      [x, y],
      [x - back * along + side * down, y - back * down + side * along],
    ]) + "Z"
  );
}
