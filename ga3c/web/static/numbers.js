/** Rows of numbers: smoothing, resampling and means. A null is a moment without a value. */

/** @typedef {import("./types.js").Values} Values */

/**
 * An exponential moving average that starts without a bias towards 0.
 *
 * @param {Values} values
 * @param {number} weight of the past, 0 (as it is) to below 1
 * @returns {Values}
 */
export function smoothed(values, weight) {
  if (weight <= 0) return values;
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

/**
 * Values at other places, by straight lines between neighbours; null outside their range.
 *
 * @param {number[]} x rising
 * @param {Values} values
 * @param {number[]} onto rising
 * @returns {Values}
 */
export function resampled(x, values, onto) {
  const there = x.map((_, i) => i).filter((i) => values[i] !== null && values[i] !== undefined);
  let next = 0;
  return onto.map((place) => {
    while (next < there.length && x[there[next]] < place) next++;
    if (next >= there.length) return null;
    const after = there[next];
    const high = /** @type {number} */ (values[after]);
    if (x[after] === place) return high;
    if (next === 0) return null;
    const before = there[next - 1];
    const low = /** @type {number} */ (values[before]);
    return low + ((high - low) * (place - x[before])) / (x[after] - x[before]);
  });
}

/**
 * The mean at each place of several rows, with the least and the greatest. A place counts only if all rows have a
 * value, because a mean of fewer runs would jump.
 *
 * @param {Values[]} rows
 * @returns {import("./types.js").Spread}
 */
export function together(rows) {
  /** @type {import("./types.js").Spread} */
  const spread = { mean: [], low: [], high: [] };
  for (let i = 0; i < rows[0].length; i++) {
    const found = rows.map((row) => row[i]);
    const all = found.every((value) => value !== null) ? /** @type {number[]} */ (found) : [];
    spread.mean.push(all.length ? all.reduce((a, b) => a + b, 0) / all.length : null);
    spread.low.push(all.length ? Math.min(...all) : null);
    spread.high.push(all.length ? Math.max(...all) : null);
  }
  return spread;
}

/**
 * The mean over time of values that each stand for the time since the value before.
 *
 * @param {number[]} seconds
 * @param {Values} values
 */
export function meanOverTime(seconds, values) {
  let sum = 0;
  let total = 0;
  values.forEach((value, i) => {
    const length = i ? seconds[i] - seconds[i - 1] : seconds[0];
    if (value === null || !(length > 0)) return;
    sum += value * length;
    total += length;
  });
  return total > 0 ? sum / total : null;
}

/** The last value that is there. @param {Values} values */
export function last(values) {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null && values[i] !== undefined) return values[i];
  return null;
}

/** Places evenly from one number to another. @param {number} from @param {number} to @param {number} places */
export function evenly(from, to, places) {
  return Array.from({ length: places }, (_, i) => from + ((to - from) * i) / (places - 1));
}
