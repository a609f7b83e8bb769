/**
 * What the server sends, as types for editors and for `tsc`. Nothing here runs.
 *
 * @typedef {"running" | "paused" | "complete" | "stopped" | "failed" | "killed"} RunState
 *
 * @typedef {{
 *   id: string, name: string, folder: string, env: string, state: RunState, steps: number | null,
 *   seconds: number | null, progress: number | null, seconds_left: number | null, score: number | null,
 *   best_score: number | null, pps: number | null, tps: number | null, updated: number | string | null,
 *   started: number | string | null, settings: Record<string, Setting>
 * }} RunRow A run in the list; `settings` are those that differ from the defaults.
 *
 * @typedef {string | number | boolean | null | Array<unknown> | {[name: string]: unknown}} Setting
 *
 * @typedef {RunRow & {
 *   all_settings: Record<string, Setting>, rules: string | null, columns: string[], live: Live | null,
 *   bottleneck: Bottleneck | null, files: Files, queue_capacity: {prediction: number | null, training: number | null}
 * }} RunDetails
 *
 * @typedef {{
 *   trace: boolean, videos: string[], card: boolean, logs: string[], recording?: boolean, failure?: string
 * }} Files `recording`: a video is being made; `failure`: why the last one could not be made.
 *
 * @typedef {{agents: number, predictors: number, trainers: number}} Numbers The paper's N_A, N_P and N_T.
 *
 * @typedef {{
 *   version: string, env: string, pid: number, paused: boolean, tuning: boolean, setting: Numbers,
 *   space: {agents: number[], predictors: number[], trainers: number[]} | null,
 *   rates: {learning_rate: number, entropy_weight: number},
 *   held: {learning_rate: number | null, entropy_weight: number | null},
 *   profile: number, gallery: {places: number, bytes: number} | null
 * }} Live What a run says of itself through its control socket.
 *
 * @typedef {{sentence: string, what: string, advice: string, stage: string}} Bottleneck
 *
 * @typedef {Record<string, number | null>} Snapshot Every column of metrics.csv.
 *
 * @typedef {{time: string, seconds: number | null, steps: number | null, kind: string, text: string,
 *   details: Record<string, unknown>}} RunEvent
 *
 * @typedef {"seconds" | "steps" | "frames"} Axis
 *
 * @typedef {Array<number | null>} Values
 *
 * @typedef {{mean: Values, low: Values, high: Values}} Spread
 *
 * @typedef {{x: number[], y: Record<string, Spread>, rows: number}} Series
 *
 * @typedef {{part: string, name: string, mean: number | null, p50: number | null, p95: number | null,
 *   p99: number | null}} Part
 *
 * @typedef {{seconds: number | null, step: Part[], prediction: Part[], update: Part[]}} Account
 *
 * @typedef {Numbers & {seconds: number, steps: number, tps: number | null, pps: number | null, lag: number | null,
 *   decision: string, accepted_agents: number, accepted_predictors: number, accepted_trainers: number, why: string
 * }} Window A window of the tuner: a row of tuning.csv.
 *
 * @typedef {[start: number, length: number, name: number]} Span Microseconds, and the place of its name.
 *
 * @typedef {{kind: string, name: string, spans: Span[]}} Track
 *
 * @typedef {{seconds: number, tracks: Track[], names: string[]}} Trace
 *
 * @typedef {{
 *   agent: number, step: number, score: number | null, length: number, reward: number | null, value: number | null,
 *   actions: Array<string | number>, probabilities: number[] | null, mean?: number[], deviation?: number[],
 *   frames?: string[], numbers?: number[]
 * }} Look One moment of one agent.
 *
 * @typedef {{settings: Array<{name: string, values: Record<string, Setting>}>, groups: string[][]}} Comparison
 *
 * @typedef {{ok: boolean, text: string}} Reply
 */

export {};
