/** The settings that tell runs apart, in a few words. */

import { setting } from "./text.js";

/** @typedef {import("./types.js").RunRow} RunRow */

const MOST_SETTINGS = 5;

/**
 * For each run, by id: the settings that differ among the runs of its environment; of a run without others, those that
 * are not the defaults.
 *
 * @param {RunRow[]} rows
 * @returns {Map<string, string>}
 */
export function telling(rows) {
  /** @type {Map<string, RunRow[]>} */
  const families = new Map();
  for (const row of rows) families.set(row.env, [...(families.get(row.env) ?? []), row]);
  return new Map([...families.values()].flatMap(ofFamily));
}

/** @param {RunRow[]} rows of one environment @returns {Array<[string, string]>} */
function ofFamily(rows) {
  const all = [...new Set(rows.flatMap(({ settings }) => Object.keys(settings)))].filter((name) => name !== "env_id");
  const differs = (/** @type {string} */ name) =>
    new Set(rows.map(({ settings }) => JSON.stringify(settings[name]))).size > 1;
  const names = rows.length > 1 ? all.filter(differs) : all;
  const more = names.length > MOST_SETTINGS ? [`${names.length - MOST_SETTINGS} more`] : [];
  return rows.map(({ id, settings }) => {
    const texts = names
      .slice(0, MOST_SETTINGS)
      .map((name) => setting(name, name in settings ? settings[name] : "default"));
    return [id, [...texts, ...more].join(" · ")];
  });
}
