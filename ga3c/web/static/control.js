/** One number of a run that can be changed: a slider and a field, and under them what the run said of it. */

import { Outcome, command } from "./command.js";
import { element, say } from "./element.js";
import { plain } from "./text.js";

/** @typedef {import("./scale.js").Scale} Scale */

export class Control {
  /** @type {Scale | null} */
  #scale = null;
  #asking = false;

  /**
   * @param {string} run
   * @param {string} name as the run calls it
   * @param {string} label
   */
  constructor(run, name, label) {
    this.run = run;
    this.name = name;
    this.label = label;
    const id = `control-${name}`;
    this.slider = element("input", { type: "range", min: 0, step: 1, "aria-label": `${label}, slider` });
    this.field = element("input", { type: "text", inputmode: "decimal", id, size: 6, autocomplete: "off" });
    this.outcome = new Outcome();
    this.note = element("small", { class: "note" });
    this.element = element(
      "div",
      { class: "control", "data-control": name },
      element("label", { for: id }, label),
      this.slider,
      this.field,
      element("div", { class: "told" }, this.outcome.element, this.note),
    );
    this.slider.addEventListener("input", () => this.#preview());
    this.slider.addEventListener("change", () => this.#ask(this.#chosen()));
    this.field.addEventListener("change", () => this.#ask(Number(this.field.value)));
  }

  /**
   * Shows the value that the run has now.
   *
   * @param {number | null} value
   * @param {Scale | null} scale null if it cannot be changed
   * @param {string} note
   */
  show(value, scale, note) {
    this.#scale = scale;
    this.slider.disabled = this.field.disabled = scale === null;
    say(this.note, note);
    if (scale) this.slider.max = `${scale.places}`;
    if (value === null || this.#asking || this.#isTouched()) return;
    this.#write(value);
  }

  /** Whether somebody is changing it just now. */
  #isTouched() {
    const written = document.activeElement === this.field && this.field.value !== this.field.dataset.shown;
    return written || this.slider.matches(":active");
  }

  #chosen() {
    return this.#scale ? this.#scale.value(Number(this.slider.value)) : NaN;
  }

  /** @param {number} value */
  #text(value) {
    return this.#scale ? this.#scale.text(value) : plain(value);
  }

  #preview() {
    this.field.value = this.#text(this.#chosen());
    this.slider.setAttribute("aria-valuetext", this.field.value);
  }

  /** @param {number} value */
  #write(value) {
    if (this.#scale) this.slider.value = `${this.#scale.place(value)}`;
    this.field.value = this.field.dataset.shown = this.#text(value);
    this.slider.setAttribute("aria-valuetext", this.field.value);
    this.value = value;
  }

  /** @param {number} wanted */
  async #ask(wanted) {
    if (!this.#scale || this.#asking) return;
    if (!Number.isFinite(wanted)) {
      this.#write(this.value ?? 0);
      return;
    }
    const value = this.#scale.nearest(wanted);
    const before = this.value ?? value;
    this.#write(value);
    this.#asking = true;
    this.element.setAttribute("aria-busy", "true");
    const done = await this.outcome.follow(`asking for ${this.#text(value)}`, () =>
      command(this.run, { do: "set", [this.name]: value }),
    );
    this.#asking = false;
    this.element.removeAttribute("aria-busy");
    if (!done) this.#write(before);
  }
}
