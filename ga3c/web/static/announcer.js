/** Tells readers of the screen what changed, in a live region that nobody sees. */

/** @param {string} text */
export function announce(text) {
  const place = document.getElementById("announcer");
  if (place) place.textContent = text;
}
