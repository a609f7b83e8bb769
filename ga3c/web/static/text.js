/** Numbers as text for people, as the terminal and the reports write them. */

/**
 * Three significant digits, thousands as 4,310 or 43.1k, 1.2M; a dash for no number.
 *
 * @param {number | null | undefined} value
 */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size < 999.5) return size > 0 && size < 1e-4 ? short(value.toExponential(2)) : `${Number(value.toPrecision(3))}`;
  if (size < 9_999.5) return Math.round(value).toLocaleString("en");
  for (const [scale, suffix] of /** @type {const} */ ([
    [1e3, "k"],
    [1e6, "M"],
    [1e9, "B"],
  ])) {
    if (size < 999.5 * scale) return `${Number((value / scale).toPrecision(3))}${suffix}`;
  }
  return short(value.toExponential(2));
}

/** An exponential without needless zeros: 5e-5. @param {string} text */
function short(text) {
  return text.replace(/\.?0*e\+?/, "e");
}

/**
 * A number with its noun: 1 agent, 2 agents, 3 processes.
 *
 * @param {number} value
 * @param {string} noun
 */
export function count(value, noun) {
  return value === 1 ? `1 ${noun}` : `${value.toLocaleString("en")} ${noun}${noun.endsWith("s") ? "es" : "s"}`;
}

/**
 * A share of 1 as 42%, rounded down, so that only 1 becomes 100%.
 *
 * @param {number | null | undefined} share
 */
export function percent(share) {
  return share === null || share === undefined || !Number.isFinite(share) ? "-" : `${Math.floor(100 * share + 1e-9)}%`;
}

/**
 * Elapsed time, as 1:02:03.
 *
 * @param {number | null | undefined} seconds
 */
export function clock(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "-";
  const whole = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ part) => `${part}`.padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/**
 * Time left, as coarse as an estimate deserves: 40 s, 14 min, 2 h 05 min, 3 d 4 h.
 *
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "-";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${`${minutes % 60}`.padStart(2, "0")} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const SHORT = new Map([
  ["learning_rate", "lr"],
  ["learning_rate_end", "lr end"],
]);

/**
 * A setting for people: `rollout 32`, `lr 5e-4`, `life loss off`; an environment by its id alone.
 *
 * @param {string} name dotted
 * @param {import("./types.js").Setting} value
 */
export function setting(name, value) {
  const last = name.split(".").at(-1) ?? name;
  if (last === "env_id") return `${value}`;
  return `${SHORT.get(last) ?? last.replaceAll("_", " ")} ${plain(value)}`;
}

/**
 * The value of a setting.
 *
 * @param {import("./types.js").Setting | undefined} value
 */
export function plain(value) {
  if (value === null || value === undefined) return "unset";
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value === "number") {
    return value !== 0 && Math.abs(value) < 0.01 ? short(value.toExponential(4)) : `${Number(value.toPrecision(6))}`;
  }
  return typeof value === "object" ? JSON.stringify(value) : value;
}

/**
 * A moment of the record, to the second, in the reader's time; `updated` comes as seconds or as text.
 *
 * @param {number | string | null | undefined} time
 */
export function moment(time) {
  const date = asDate(time);
  return date ? date.toLocaleString("sv") : "";
}

/**
 * How long ago a moment was: 3 s ago, 14 min ago, 5 h ago, 2 d ago.
 *
 * @param {number | string | null | undefined} time
 */
export function ago(time) {
  const date = asDate(time);
  if (!date) return "-";
  const seconds = Math.max(0, (Date.now() - date.getTime()) / 1000);
  const hours = Math.round(seconds / 3600);
  return `${seconds < 5400 ? duration(seconds) : hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} d`} ago`;
}

/** @param {number | string | null | undefined} time */
function asDate(time) {
  if (time === null || time === undefined) return null;
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(date.getTime()) ? null : date;
}
