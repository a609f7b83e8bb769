/** What the drawing of the engine shows of a run: titles, shares, rates and the fill of the queues. */

import { count, number, plain } from "./text.js";

/** @typedef {import("./types.js").Snapshot} Snapshot */
/** @typedef {import("./types.js").Values} Values */
/** @typedef {import("./watched.js").Watched} Watched */
/**
 * @typedef {{now: Snapshot, queues: {prediction: Values, training: Values}}} Figures The figures to draw, and the
 *   fill of the queues.
 */

/** @type {{[stage: string]: import("./layout.js").Place}} */
const LIT = { environments: "agents", agents: "agents", predictors: "predictors", trainers: "trainers" };

/** @param {Watched} run @param {Figures} figures @returns {import("./drawing.js").Picture} */
export function picture(run, { now, queues }) {
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

/**
 * The texts and rates at the arrows.
 *
 * @param {Watched} run
 * @param {Snapshot} now
 * @returns {Record<string, import("./drawing.js").Rate>}
 */
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

/**
 * @param {Array<[string, number | null | undefined, "work" | "wait" | "held"]>} shares
 * @returns {import("./drawing.js").Share[]}
 */
function known(shares) {
  return shares.flatMap(([word, part, mark]) => (part === null || part === undefined ? [] : [{ word, part, mark }]));
}
