/** Work that is done only while somebody can see its result. */

/**
 * Calls `start` whenever the element comes onto the screen of a visible page, with a signal that ends when it leaves.
 *
 * @param {Element} place
 * @param {AbortSignal} signal ends it for good
 * @param {(signal: AbortSignal) => void} start
 * @param {string} [margin] how far outside the screen still counts
 */
export function whileVisible(place, signal, start, margin = "0px") {
  let onScreen = false;
  /** @type {AbortController | null} */
  let running = null;

  function update() {
    const wanted = onScreen && !document.hidden && !signal.aborted;
    if (wanted && !running) {
      running = new AbortController();
      start(running.signal);
    } else if (!wanted && running) {
      running.abort();
      running = null;
    }
  }

  const observer = new IntersectionObserver(
    (entries) => {
      onScreen = entries.at(-1)?.isIntersecting ?? false;
      update();
    },
    { rootMargin: margin },
  );
  observer.observe(place);
  document.addEventListener("visibilitychange", update, { signal });
  signal.addEventListener("abort", () => {
    observer.disconnect();
    update();
  });
}

/**
 * Does something again and again, each time a while after the last has ended.
 *
 * @param {() => Promise<void> | void} act
 * @param {number} milliseconds
 * @param {AbortSignal} signal ends it
 */
export async function repeat(act, milliseconds, signal) {
  while (!signal.aborted) {
    await act();
    await pause(milliseconds, signal);
  }
}

/** @param {number} milliseconds @param {AbortSignal} signal @returns {Promise<void>} */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
