/**
 * Something that happens, and who wants to hear of it.
 *
 * @template T
 */
export class Topic {
  /** @type {Set<(value: T) => void>} */
  #listeners = new Set();

  /**
   * @param {(value: T) => void} listener
   * @param {AbortSignal} signal ends it
   */
  on(listener, signal) {
    this.#listeners.add(listener);
    signal.addEventListener("abort", () => this.#listeners.delete(listener));
  }

  /** @param {T} value */
  tell(value) {
    for (const listener of [...this.#listeners]) listener(value);
  }
}
