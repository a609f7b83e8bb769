/** Dots that move along the arrows of a drawing, each arrow at a speed that follows its rate. */

import { svg } from "./element.js";
import { whileVisible } from "./visible.js";

const SPACING = 26; // between the dots, in units of the drawing
const FASTEST = 150; // units a second: less than half the spacing a picture, so that no dot seems to go back
const PER_DOUBLING = 12; // units a second more for each doubling of the rate: rates span five orders of magnitude
const PICTURE_MS = 80; // a run on the same machine pays for each: all together 7% of a core without a GPU

/** The speed of the dots of a rate. @param {number | null} rate a second */
export function speed(rate) {
  return rate === null || !(rate > 0) ? 0 : Math.min(FASTEST, PER_DOUBLING * Math.log2(1 + rate));
}

/** The dots of one arrow: dashes without length and with round ends. */
export class Flow {
  #offset = 0;
  #speed = 0;

  /** @param {string} path */
  constructor(path) {
    this.dots = svg("path", { d: path, class: "dots", "stroke-dasharray": `0 ${SPACING}` });
  }

  /** @param {number | null} rate a second */
  set rate(rate) {
    this.#speed = speed(rate);
    this.dots.classList.toggle("still", this.#speed === 0);
  }

  /** @param {number} seconds */
  move(seconds) {
    if (this.#speed === 0) return;
    this.#offset = (this.#offset + this.#speed * seconds) % SPACING;
    this.dots.style.strokeDashoffset = `${-this.#offset}`;
  }
}

/**
 * Moves dots while their drawing is on the screen, and never for readers who asked for less motion.
 *
 * @param {Element} place
 * @param {Flow[]} flows
 * @param {AbortSignal} signal
 */
export function animate(place, flows, signal) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  whileVisible(place, signal, (seen) => {
    let then = performance.now();
    const timer = setInterval(() => {
      const now = performance.now();
      if (!still.matches) for (const flow of flows) flow.move((now - then) / 1000);
      then = now;
    }, PICTURE_MS);
    seen.addEventListener("abort", () => clearInterval(timer));
  });
}
