/** Dark or light: as the system says, or as the reader chose. */

import { element } from "./element.js";
import { Topic } from "./topic.js";

const KEY = "ga3c-theme";
const CHOICES = /** @type {const} */ ([
  ["auto", "light dark"],
  ["light", "light"],
  ["dark", "dark"],
]);

/** Told when colours change; pictures on a canvas must then be drawn again. @type {Topic<void>} */
export const recoloured = new Topic();

/** @type {Map<string, string>} */
const colours = new Map();

/** The colour of a name in base.css, such as `c0`, as a canvas takes it. @param {string} name */
export function colour(name) {
  const known = colours.get(name);
  if (known) return known;
  const probe = element("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  colours.set(name, found);
  return found;
}

/** The same colour, partly transparent. @param {string} name @param {number} alpha */
export function faded(name, alpha) {
  return colour(name).replace(
    /^rgba?\(([^)/]+)\)$/,
    (_, parts) => `rgba(${parts.split(",").slice(0, 3).join(",")}, ${alpha})`,
  );
}

/** Black or white, whichever is easier to read on a colour. @param {string} name */
export function readableOn(name) {
  const [red, green, blue] = (colour(name).match(/[\d.]+/g) ?? []).map((part) => (Number(part) / 255) ** 2.2);
  // The luminance at which black and white have the same contrast, by WCAG's formula.
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** The switch in the header. */
export function themeSwitch() {
  const choice = element("select", { "aria-label": "Colours", class: "theme" });
  for (const [name] of CHOICES)
    choice.append(element("option", { value: name }, name === "auto" ? "Auto" : name === "dark" ? "Dark" : "Light"));
  choice.value = stored();
  choice.addEventListener("change", () => {
    localStorage.setItem(KEY, choice.value);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
  return choice;
}

function stored() {
  const name = localStorage.getItem(KEY);
  return CHOICES.some(([known]) => known === name) ? /** @type {string} */ (name) : "auto";
}

function apply() {
  const [, scheme] = CHOICES.find(([name]) => name === stored()) ?? CHOICES[0];
  document.documentElement.style.colorScheme = scheme;
  colours.clear();
  recoloured.tell();
}
