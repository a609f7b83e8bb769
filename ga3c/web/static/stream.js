/** The stream of news from the server. It reconnects by itself, and rests while nobody sees the page. */

import { Refused, getJson } from "./api.js";

/** @typedef {import("./types.js").RunRow} RunRow */
/** @typedef {{state: "connecting" | "live" | "lost" | "refused" | "resting", text: string}} Connection */

/**
 * @typedef {{
 *   connection: (connection: Connection) => void,
 *   opened: () => void,
 *   runs: (rows: RunRow[]) => void,
 *   snapshot?: (message: {run: string, snapshot: import("./types.js").Snapshot,
 *     bottleneck: import("./types.js").Bottleneck | null}) => void,
 *   event?: (message: {run: string, event: import("./types.js").RunEvent}) => void,
 *   state?: (message: {run: string, state: import("./types.js").Live}) => void,
 *   gone?: (message: {run: string}) => void,
 * }} Handlers `opened` is called after each new connection: what was missed must be fetched again.
 */

const SILENT_MS = 20_000; // after so long without a message the server is asked whether it is there
const REST_MS = 30_000; // a hidden page keeps its stream for so long
const MOST_WAIT_MS = 8_000;

export class Stream {
  /** @type {EventSource | null} */
  #source = null;
  #tries = 0;
  #heard = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retry;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #rest;

  /**
   * @param {string[]} runs whose snapshots, events and states are wanted
   * @param {Handlers} handlers
   * @param {AbortSignal} signal ends it
   */
  constructor(runs, handlers, signal) {
    this.runs = runs;
    this.handlers = handlers;
    const watch = setInterval(() => this.#check(), SILENT_MS / 4);
    document.addEventListener("visibilitychange", () => this.#seen(), { signal });
    signal.addEventListener("abort", () => {
      clearInterval(watch);
      clearTimeout(this.#rest);
      this.#close();
    });
    this.#open();
  }

  #open() {
    this.#close();
    this.#heard = Date.now();
    const query = this.runs.length ? `?runs=${this.runs.map(encodeURIComponent).join(",")}` : "";
    const source = new EventSource(`/api/stream${query}`);
    source.addEventListener("open", () => {
      this.#tries = 0;
      this.#heard = Date.now();
      this.handlers.connection({ state: "live", text: "live" });
      this.handlers.opened();
    });
    source.addEventListener("error", () => this.#lost());
    for (const name of /** @type {const} */ (["runs", "snapshot", "event", "state", "gone"])) {
      source.addEventListener(name, (message) => {
        this.#heard = Date.now();
        const handler = /** @type {((data: any) => void) | undefined} */ (this.handlers[name]);
        handler?.(JSON.parse(message.data));
      });
    }
    this.#source = source;
  }

  #close() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
  }

  async #lost() {
    this.#close();
    const wait = Math.min(MOST_WAIT_MS, 1000 * 2 ** this.#tries++);
    this.handlers.connection({ state: "lost", text: "connection lost, trying again" });
    this.#retry = setTimeout(() => this.#open(), wait);
    try {
      await getJson("/api/runs");
    } catch (error) {
      // A server that started again has another token, and its address with the token must be opened once.
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        clearTimeout(this.#retry);
        this.handlers.connection({ state: "refused", text: "open the address again that the server printed" });
      }
    }
  }

  /** Asks a silent server whether it is there: a tunnel that broke may tell nobody. */
  async #check() {
    if (!this.#source || Date.now() - this.#heard < SILENT_MS) return;
    try {
      await getJson("/api/runs", AbortSignal.timeout(SILENT_MS / 4));
      this.#heard = Date.now();
    } catch {
      if (this.#source) await this.#lost();
    }
  }

  #seen() {
    clearTimeout(this.#rest);
    if (!document.hidden) {
      if (!this.#source) this.#open();
      return;
    }
    this.#rest = setTimeout(() => {
      this.#close();
      this.handlers.connection({ state: "resting", text: "resting while hidden" });
    }, REST_MS);
  }
}
