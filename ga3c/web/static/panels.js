/** The charts of a run: the same as in its report. */

/**
 * @typedef {{
 *   title: string, note: string, columns: Array<[name: string, label: string]>, scale?: number, fromZero?: boolean
 * }} Panel `columns` are those of metrics.csv, `scale` is what their values are multiplied with.
 */

/** @type {Panel} */
export const SCORE = {
  title: "Score",
  note: "mean of the last 100 episodes; the band is the middle 80% of episodes",
  columns: [["score", "mean of 100"]],
};

/** @type {Panel[]} */
export const SPEED = [
  { title: "PPS", note: "predictions per second", columns: [["pps", "PPS"]], fromZero: true },
  { title: "TPS", note: "updates per second", columns: [["tps", "TPS"]], fromZero: true },
  {
    title: "Policy lag",
    note: "updates",
    columns: [
      ["lag", "mean"],
      ["lag_max", "highest"],
    ],
    fromZero: true,
  },
  {
    title: "Queues",
    note: "agents, rollouts",
    columns: [
      ["prediction_queue", "prediction"],
      ["training_queue", "training"],
    ],
    fromZero: true,
  },
];

/** @type {Panel[]} */
export const OTHERS = [
  {
    title: "Prediction batch",
    note: "agents in a prediction",
    columns: [["prediction_batch", "agents"]],
    fromZero: true,
  },
  {
    title: "Episode length",
    note: "agent steps, mean of 100 episodes",
    columns: [["episode_length", "steps"]],
    fromZero: true,
  },
  { title: "Entropy", note: "of the policy", columns: [["entropy", "entropy"]], fromZero: true },
  { title: "Value loss", note: "", columns: [["value_loss", "value"]], fromZero: true },
  {
    title: "Policy loss",
    note: "",
    columns: [
      ["policy_loss", "policy"],
      ["loss", "whole loss"],
    ],
  },
  { title: "Gradient norm", note: "before clipping", columns: [["gradient_norm", "norm"]], fromZero: true },
  { title: "Learning rate", note: "", columns: [["learning_rate", "rate"]], fromZero: true },
  { title: "Entropy weight", note: "", columns: [["entropy_weight", "weight"]], fromZero: true },
  {
    title: "Use of the machine",
    note: "%",
    columns: [
      ["core_utilisation", "cores"],
      ["gpu_utilisation", "GPU"],
    ],
    scale: 100,
    fromZero: true,
  },
  { title: "GPU memory", note: "GiB in use", columns: [["gpu_memory_mb", "GiB"]], scale: 1 / 1024, fromZero: true },
  { title: "Agents", note: "at play", columns: [["agents", "agents"]], fromZero: true },
  {
    title: "Predictors and trainers",
    note: "at work",
    columns: [
      ["predictors", "predictors"],
      ["trainers", "trainers"],
    ],
    fromZero: true,
  },
  {
    title: "Shares of time",
    note: "% of each stage's time",
    columns: [
      ["agent_stepping", "agents step"],
      ["predictor_predicting", "predict"],
      ["predictor_blocked", "held back"],
      ["trainer_training", "train"],
    ],
    scale: 100,
    fromZero: true,
  },
];

/** What several runs are compared by: one column each. @type {Panel[]} */
export const COMPARED = [
  { ...SCORE, note: "mean of the last 100 episodes" },
  { title: "PPS", note: "predictions per second", columns: [["pps", "PPS"]], fromZero: true },
  { title: "TPS", note: "updates per second", columns: [["tps", "TPS"]], fromZero: true },
  { title: "Policy lag", note: "updates", columns: [["lag", "mean"]], fromZero: true },
  { title: "Training queue", note: "rollouts", columns: [["training_queue", "rollouts"]], fromZero: true },
  { title: "Entropy", note: "of the policy", columns: [["entropy", "entropy"]], fromZero: true },
  { title: "Value loss", note: "", columns: [["value_loss", "value"]], fromZero: true },
  { title: "Use of the cores", note: "%", columns: [["core_utilisation", "cores"]], scale: 100, fromZero: true },
  { title: "Use of the GPU", note: "%", columns: [["gpu_utilisation", "GPU"]], scale: 100, fromZero: true },
];
