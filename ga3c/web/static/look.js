/** A closer look at one agent: what it observes, the probabilities of its actions, and the value over its episode. */

import { at } from "./api.js";
import { Chart } from "./chart.js";
import { button, element, fill, say } from "./element.js";
import { number } from "./text.js";

/** @typedef {import("./types.js").Look} Look */

const MOST_MOMENTS = 2000;
const MOST_ACTIONS = 24;
const MOST_NUMBERS = 64;

export class Looking {
  /** @type {EventSource | null} */
  #source = null;
  /** @type {{steps: number[], values: Array<number | null>}} */
  #episode = { steps: [], values: [] };
  /** What had the focus when the panel was opened. @type {Element | null} */
  #opener = null;
  #signal;

  /**
   * @param {import("./watched.js").Watched} run
   * @param {(agent: number | null) => void} chosen is told whom it looks at
   * @param {AbortSignal} signal
   */
  constructor(run, chosen, signal) {
    this.run = run;
    this.chosen = chosen;
    this.#signal = signal;
    this.title = element("h2", { id: "look-title", tabindex: -1 });
    this.facts = element("p", { class: "note" });
    this.frames = element("div", { class: "frames" });
    this.actions = element("div", { class: "actions", role: "img" });
    this.chart = new Chart({ title: "Value", note: "what the model expects, over the episode", height: 150 }, signal);
    const close = button("Close", () => this.close());
    this.panel = element(
      "section",
      { class: "panel look", "data-section": "look", "aria-labelledby": "look-title", hidden: true },
      element("div", { class: "head" }, this.title, this.facts, close),
      element("div", { class: "beside" }, this.frames, this.actions, this.chart.figure),
    );
    this.panel.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.chooser = this.#chooser();
    signal.addEventListener("abort", () => this.#source?.close());
  }

  /** A field for agents that are not on the wall. */
  #chooser() {
    this.agent = element("input", { type: "number", min: 0, value: 0, inputmode: "numeric" });
    const look = button("Look", () => this.agent && this.open(Number(this.agent.value)));
    return element("div", { class: "toolbar" }, element("label", {}, "agent ", this.agent), look);
  }

  /** @param {boolean} possible @param {number} last the last agent */
  enable(possible, last) {
    this.chooser.hidden = !possible;
    this.agent?.setAttribute("max", `${last}`);
    if (!possible) this.#source?.close();
  }

  /** @param {number} agent */
  open(agent) {
    if (!Number.isInteger(agent) || agent < 0) return;
    this.#source?.close();
    this.#episode = { steps: [], values: [] };
    this.#opener = document.activeElement;
    this.panel.hidden = false;
    this.chosen(agent);
    say(this.title, `Agent ${agent}`);
    say(this.facts, "Waiting for its next step.");
    fill(this.frames);
    fill(this.actions);
    const source = new EventSource(at(this.run.id, "look", { agent }));
    source.addEventListener("look", (message) => this.#show(JSON.parse(message.data)));
    source.addEventListener("error", () => say(this.facts, "This agent cannot be seen now."));
    this.#source = source;
    this.panel.scrollIntoView({ block: "nearest" });
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.#source?.close();
    this.panel.hidden = true;
    this.chosen(null);
    if (this.#opener instanceof HTMLElement) this.#opener.focus();
  }

  /** @param {Look} look */
  #show(look) {
    if (this.#signal.aborted) return;
    say(this.title, `Agent ${look.agent}`);
    const facts = { score: look.score, "last reward": look.reward, value: look.value };
    const told = Object.entries(facts).map(([name, value]) => `${name} ${number(value)}`);
    say(this.facts, `step ${number(look.length)} of its episode, ${told.join(", ")}`);
    this.#showFrames(look);
    this.#showActions(look);
    this.#showValue(look);
  }

  /** @param {Look} look */
  #showFrames({ frames, numbers }) {
    if (frames?.length) {
      const images = /** @type {HTMLImageElement[]} */ ([...this.frames.querySelectorAll("img")]);
      if (images.length !== frames.length) {
        images.splice(
          0,
          images.length,
          ...frames.map((_, i) =>
            element("img", { alt: `observation ${i + 1} of ${frames.length}, the last is the newest` }),
          ),
        );
        fill(this.frames, ...images);
      }
      images.forEach((image, i) => (image.src = frames[i]));
    } else if (numbers) {
      const more = numbers.length > MOST_NUMBERS ? ` and ${numbers.length - MOST_NUMBERS} more` : "";
      const shown = numbers.slice(0, MOST_NUMBERS).map((value) => element("li", {}, number(value)));
      fill(
        this.frames,
        element(
          "p",
          { class: "note" },
          `Observation of ${numbers.length} numbers${more && `, the first ${MOST_NUMBERS}`}`,
        ),
        element("ol", { class: "numbers", start: 0 }, ...shown),
      );
    }
  }

  /** Probabilities as bars; of continuous actions the mean with its deviation. @param {Look} look */
  #showActions({ actions, probabilities, mean, deviation }) {
    if (probabilities) {
      const named = probabilities.map((probability, i) => ({ name: `${actions[i] ?? i}`, probability }));
      if (named.length > MOST_ACTIONS) named.sort((a, b) => b.probability - a.probability).splice(MOST_ACTIONS);
      fill(
        this.actions,
        ...named.map(({ name, probability }) => bar(name, probability, `${Math.round(100 * probability)}%`)),
      );
      const likely = named.reduce((a, b) => (b.probability > a.probability ? b : a), named[0]);
      this.actions.setAttribute(
        "aria-label",
        likely ? `Most likely action: ${likely.name}, ${Math.round(100 * likely.probability)}%` : "",
      );
    } else if (mean) {
      fill(
        this.actions,
        ...mean.map((value, i) =>
          element("p", {}, `${actions[i] ?? `action ${i}`}: ${number(value)} ± ${number(deviation?.[i])}`),
        ),
      );
    }
  }

  /** @param {Look} look */
  #showValue({ length, value }) {
    const { steps, values } = this.#episode;
    if (steps.length && length < steps[steps.length - 1]) this.#episode = { steps: [length], values: [value] };
    else if (length !== steps.at(-1)) {
      steps.push(length);
      values.push(value);
      if (steps.length > MOST_MOMENTS) [steps, values].forEach((list) => list.shift());
    }
    this.chart.show("steps", this.#episode.steps, [{ label: "value", look: 0, y: this.#episode.values }]);
  }
}

/** @param {string} name @param {number} share @param {string} text */
function bar(name, share, text) {
  const filled = element("span", { class: "filled" });
  filled.style.width = `${Math.min(100, Math.max(0, 100 * share))}%`;
  return element(
    "div",
    { class: "bar" },
    element("span", { class: "name" }, name),
    element("span", { class: "track" }, filled),
    element("span", { class: "figure" }, text),
  );
}
