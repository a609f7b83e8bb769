/** The states of a run: their look, and what the page says when they change. */

import { element } from "./element.js";

/** @typedef {import("./types.js").RunState} RunState */

/** @type {Record<RunState, {mark: string, sentence: string}>} */
const STATES = {
  running: { mark: "▶", sentence: "The run is training." },
  paused: { mark: "❚❚", sentence: "The run is paused: agents and predictors rest." },
  complete: { mark: "✓", sentence: "The run is complete." },
  stopped: { mark: "■", sentence: "The run was stopped. ga3c resume goes on with it." },
  failed: { mark: "✕", sentence: "The run failed; its events and logs tell why." },
  killed: { mark: "✕", sentence: "The process of the run was killed. ga3c resume goes on from its last checkpoint." },
};

/** Whether no process of the run is left. @param {RunState} state */
export function isOver(state) {
  return state !== "running" && state !== "paused";
}

/**
 * The predictions a second of a run, now or as the mean of a run that is over: what a run did in its last second, as it
 * ended, says nothing.
 *
 * @param {import("./types.js").RunRow} row
 */
export function pps({ state, pps, steps, seconds }) {
  if (!isOver(state)) return pps;
  return steps !== null && seconds ? steps / seconds : null;
}

/** The updates a second of a run that trains. @param {import("./types.js").RunRow} row */
export function tps({ state, tps }) {
  return isOver(state) ? null : tps;
}

/** The state as a small label: a sign, a word and a colour. @param {RunState} state */
export function badge(state) {
  const mark = element("span", { "aria-hidden": "true" }, STATES[state]?.mark ?? "?");
  return element("span", { class: `badge ${state}` }, mark, ` ${state}`);
}

/** What a state means. @param {RunState} state */
export function sentence(state) {
  return STATES[state]?.sentence ?? `The run is ${state}.`;
}
