/** Scales of sliders: the places of a slider, 0 to `places`, and the values they stand for. */

import { number, plain } from "./text.js";

/**
 * @typedef {{places: number, value: (place: number) => number, place: (value: number) => number,
 *   nearest: (value: number) => number, text: (value: number) => string}} Scale
 */

/** Some numbers and nothing between them. @param {number[]} levels rising @returns {Scale} */
export function levels(levels) {
  const place = (/** @type {number} */ value) => {
    const distances = levels.map((level) => Math.abs(level - value));
    return distances.indexOf(Math.min(...distances));
  };
  return {
    places: levels.length - 1,
    value: (at) => levels[at],
    place,
    nearest: (value) => levels[place(value)],
    text: plain,
  };
}

/**
 * Equal steps multiply the value by the same factor; any value may be typed.
 *
 * @param {number} least
 * @param {number} most
 * @returns {Scale}
 */
export function logarithmic(least, most) {
  const places = 240;
  const doublings = Math.log2(most / least);
  return {
    places,
    value: (at) => Number((least * 2 ** ((doublings * at) / places)).toPrecision(2)),
    place: (value) =>
      Math.round(places * Math.min(1, Math.max(0, Math.log2(Math.max(value, least) / least) / doublings))),
    nearest: (value) => value,
    text: number,
  };
}
