/** The engine of a run: the live drawing, and what limits the run. */

import { at, getJson } from "./api.js";
import { Drawing } from "./drawing.js";
import { element, section } from "./element.js";
import { limit } from "./limit.js";
import { last, meanOverTime } from "./numbers.js";
import { count, number, plain } from "./text.js";

/** @typedef {import("./types.js").Snapshot} Snapshot */
/** @typedef {import("./types.js").Values} Values */
/** @typedef {import("./watched.js").Watched} Watched */
/** @typedef {{now: Snapshot, queues: {prediction: Values, training: Values}}} Figures The figures to draw, and the fill of the queues. */

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
/** @type {{[stage: string]: import("./layout.js").Place}} */
const LIT = { environments: "agents", agents: "agents", predictors: "predictors", trainers: "trainers" };

/** The section. @param {Watched} run @param {AbortSignal} signal */
export function engine(run, signal) {
  if (run.details.all_settings["engine.system"] !== "ga3c") return section("engine", "The engine", alone(run));
  const drawing = new Drawing(signal);
  const note = element("p", { class: "note" });
  /** @type {Figures | null} */
  let record = null;

  function draw() {
    note.textContent = !run.isOver
      ? `Rates and shares of the last second; the areas are the fill of the queues over the last ${LIVE_SECONDS / 60} minutes.`
      : "Rates and shares are means over the run; the areas are the fill of the queues from its start to its end.";
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

/** The record of a live run's last seconds, or of all of a run that is over, with its means. @param {Watched} run
 * @param {AbortSignal} signal @returns {Promise<Figures>} */
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

/** @param {Watched} run @param {Figures} record @returns {import("./drawing.js").Picture} */
function picture(run, { now, queues }) {
  const stages = {
    agents: agents(run, now),
    predictors: predictors(run, now),
    trainers: trainers(run, now),
    model: model(run, now),
  };
  const drawn = {
    "prediction queue": predictionQueue(run, now, queues.prediction),
    "training queue": trainingQueue(run, now, queues.training),
  };
  const words = [
    ...Object.values(stages).map(({ title, notes, shares }) =>
      [title, ...notes, ...shares.map(({ word, part }) => `${word} ${Math.round(100 * part)}%`)].join(", "),
    ),
    ...Object.values(drawn).map(({ title, note }) => `${title}, ${note}`),
  ].join(". ");
  const stage = run.details.bottleneck?.stage;
  return { stages, queues: drawn, rates: rates(run, now), lit: stage ? (LIT[stage] ?? null) : null, words };
}

/** @param {Watched} run @param {Snapshot} now @returns {import("./drawing.js").Stage} */
function agents(run, now) {
  const shares = known([
    ["stepping", now.agent_stepping, "work"],
    ["waiting", now.agent_waiting, "wait"],
  ]);
  return {
    title: titled(now.agents, "agent"),
    notes: [`${number(now.wait_ms)} ms for an action`],
    shares,
    pips: pips(run, now, "agents"),
  };
}

/** @param {Watched} run @param {Snapshot} now @returns {import("./drawing.js").Stage} */
function predictors(run, now) {
  const shares = known([
    ["predicting", now.predictor_predicting, "work"],
    ["waiting", now.predictor_waiting, "wait"],
    ["held back", now.predictor_blocked, "held"],
  ]);
  return {
    title: titled(now.predictors, "predictor"),
    notes: [`${number(now.predicting_ms)} ms a prediction`],
    shares,
    pips: pips(run, now, "predictors"),
  };
}

/** @param {Watched} run @param {Snapshot} now @returns {import("./drawing.js").Stage} */
function trainers(run, now) {
  const shares = known([
    ["training", now.trainer_training, "work"],
    ["waiting", now.trainer_waiting, "wait"],
  ]);
  return {
    title: titled(now.trainers, "trainer"),
    notes: [`${number(now.update_ms)} ms an update`],
    shares,
    pips: pips(run, now, "trainers"),
  };
}

/** @param {Watched} run @param {Snapshot} now @returns {import("./drawing.js").Stage} */
function model(run, now) {
  const all = run.details.all_settings;
  const has = (/** @type {number | null | undefined} */ share) => share !== null && share !== undefined;
  const device =
    { cpu: "CPU", cuda: "GPU", auto: has(now.gpu_utilisation) ? "GPU" : "CPU" }[`${all["engine.device"]}`] ??
    plain(all["engine.device"]);
  const shares = known([
    ["GPU in use", now.gpu_utilisation, "work"],
    ["cores in use", now.core_utilisation, "work"],
  ]);
  const notes = [
    `${all["net.net"] === "auto" ? "network" : plain(all["net.net"])}`.slice(0, 22),
    `on the ${device}`,
    `lag ${number(now.lag)} updates`,
    ...shares.slice(1).map(({ word, part }) => `${word} ${Math.round(100 * part)}%`),
  ];
  return { title: "Model", notes, shares: shares.slice(0, 1), pips: null };
}

/** @param {Watched} run @param {Snapshot} now @param {Values} fill @returns {import("./drawing.js").Queue} */
function predictionQueue(run, now, fill) {
  const capacity = run.details.queue_capacity.prediction ?? Math.max(1, now.agents ?? 1);
  return {
    title: "Prediction queue",
    note: `${number(now.prediction_queue)} of ${number(capacity)} agents`,
    fill,
    capacity,
  };
}

/** @param {Watched} run @param {Snapshot} now @param {Values} fill @returns {import("./drawing.js").Queue} */
function trainingQueue(run, now, fill) {
  const capacity = run.details.queue_capacity.training ?? 1;
  return {
    title: "Training queue",
    note: `${number(now.training_queue)} of ${number(capacity)} rollouts`,
    fill,
    capacity,
  };
}

/** The texts and rates at the arrows. @param {Watched} run @param {Snapshot} now @returns {Record<string, import("./drawing.js").Rate>} */
function rates(run, now) {
  const still = run.isOver || run.details.state === "paused";
  const [pps, tps, batch] = [now.pps ?? null, now.tps ?? null, now.prediction_batch ?? null];
  const predictions = pps !== null && batch ? pps / batch : null;
  const rollouts = pps === null ? null : pps / Math.max(1, run.setting("learn.rollout", 1));
  /** @type {Array<[string, string, number | null]>} */
  const all = [
    ["requests", `${number(pps)}/s`, pps],
    ["batches", `${number(batch)} at once`, predictions],
    ["predictions", `${number(predictions)}/s`, predictions],
    ["weights", "weights", tps],
    ["actions", `${number(pps)} actions/s (PPS)`, pps],
    ["rollouts", `${number(rollouts)} rollouts/s`, rollouts],
    ["updates' rollouts", `${number(run.setting("learn.batch_rollouts", 1))} at once`, tps],
    ["updates", `TPS ${number(tps)}`, tps],
  ];
  return Object.fromEntries(all.map(([name, text, rate]) => [name, { text, rate: still ? 0 : rate }]));
}

/** @param {Watched} run @param {Snapshot} now @param {"agents" | "predictors" | "trainers"} name */
function pips(run, now, name) {
  const on = now[name];
  if (on === null || on === undefined) return null;
  return { on, of: Math.max(on, ...(run.live?.space?.[name] ?? [])) };
}

/** @param {number | null | undefined} value @param {string} noun */
function titled(value, noun) {
  return value === null || value === undefined ? `${noun[0].toUpperCase()}${noun.slice(1)}s` : count(value, noun);
}

/** @param {Array<[string, number | null | undefined, "work" | "wait" | "held"]>} shares @returns {import("./drawing.js").Share[]} */
function known(shares) {
  return shares.flatMap(([word, part, mark]) => (part === null || part === undefined ? [] : [{ word, part, mark }]));
}
