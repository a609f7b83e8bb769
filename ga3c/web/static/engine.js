/** The engine of a run: the live drawing, and what limits the run. */

import { at, getJson } from "./api.js";
import { Drawing } from "./drawing.js";
import { element, say, section } from "./element.js";
import { limit } from "./limit.js";
import { last, meanOverTime } from "./numbers.js";
import { picture } from "./picture.js";
import { plain } from "./text.js";

/** @typedef {import("./watched.js").Watched} Watched */
/** @typedef {import("./picture.js").Figures} Figures */

const NAMES = [
  "pps",
  "tps",
  "prediction_queue",
  "training_queue",
  "prediction_batch",
  "lag",
  "agents",
  "predictors",
  "trainers",
  "agent_stepping",
  "agent_waiting",
  "predictor_predicting",
  "predictor_waiting",
  "predictor_blocked",
  "trainer_training",
  "trainer_waiting",
  "wait_ms",
  "update_ms",
  "predicting_ms",
  "gpu_utilisation",
  "core_utilisation",
  "seconds",
];
const LIVE_SECONDS = 120; // of which the queues show their fill
const LIVE_NOTE = `Rates and shares of the last second; areas are the fill of the queues over ${LIVE_SECONDS / 60} minutes.`;
const OVER_NOTE =
  "Rates and shares are means over the run; the areas are the fill of the queues from its start to its end.";

/** The section. @param {Watched} run @param {AbortSignal} signal */
export function engine(run, signal) {
  if (run.details.all_settings["engine.system"] !== "ga3c") return section("engine", "The engine", alone(run));
  const drawing = new Drawing(signal);
  const note = element("p", { class: "note" });
  /** @type {Figures | null} */
  let record = null;

  function draw() {
    say(note, run.isOver ? OVER_NOTE : LIVE_NOTE);
    drawing.show(picture(run, record ?? { now: {}, queues: { prediction: [], training: [] } }));
  }

  async function fetchRecord() {
    try {
      record = await past(run, signal);
    } catch {
      return; // the page says that the connection is lost, and comes back
    }
    draw();
  }

  run.snapshots.on((now) => {
    record ??= { now, queues: { prediction: [], training: [] } };
    record.now = now;
    record.queues.prediction = [...record.queues.prediction, now.prediction_queue ?? null].slice(-LIVE_SECONDS);
    record.queues.training = [...record.queues.training, now.training_queue ?? null].slice(-LIVE_SECONDS);
    draw();
  }, signal);
  run.changed.on(draw, signal);
  run.missed.on(fetchRecord, signal);
  draw();
  fetchRecord();
  return section("engine", "The engine", limit(run, signal), element("figure", {}, ...drawing.elements), note);
}

/**
 * The record of a live run's last seconds, or of all of a run that is over, with its means.
 *
 * @param {Watched} run
 * @param {AbortSignal} signal
 * @returns {Promise<Figures>}
 */
async function past(run, signal) {
  const from = !run.isOver ? Math.max(0, (run.details.seconds ?? 0) - LIVE_SECONDS) : null;
  /** @type {import("./types.js").Series} */
  const { x, y } = await getJson(
    at(run.id, "series", { y: NAMES.join(","), x: "seconds", points: LIVE_SECONDS, from }),
    signal,
  );
  const of = (/** @type {string} */ name) => y[name]?.mean ?? [];
  const settled = new Set(["agents", "predictors", "trainers"]);
  const now = Object.fromEntries(
    NAMES.map((name) => [name, !run.isOver || settled.has(name) ? last(of(name)) : meanOverTime(x, of(name))]),
  );
  return { now: run.snapshot ?? now, queues: { prediction: of("prediction_queue"), training: of("training_queue") } };
}

/** Systems without queues and predictors have no such drawing. @param {Watched} run */
function alone(run) {
  const system = plain(run.details.all_settings["engine.system"]);
  return element(
    "p",
    {},
    `Every agent of ${system} has a model of its own, so there are no predictors, trainers and queues.`,
  );
}
