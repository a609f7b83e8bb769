/** Elements of the page. Text only ever becomes text nodes, so nothing that a run says can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Attributes */

/**
 * An HTML element with attributes and children.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes] `true` sets an attribute without a value; false, null and undefined set none
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * An SVG element with attributes and children.
 *
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * @template {Element} E
 * @param {E} made
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {E}
 */
function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined)
      made.setAttribute(name, value === true ? "" : `${value}`);
  }
  made.append(...nodes(children));
  return made;
}

/**
 * Replaces what is in an element.
 *
 * @param {Element} place
 * @param {...Child} children
 */
export function fill(place, ...children) {
  place.replaceChildren(...nodes(children));
}

/** @param {Child[]} children @returns {Array<Node | string>} */
function nodes(children) {
  /** @type {Array<Node | string>} */
  const there = [];
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false)
      there.push(typeof child === "number" ? `${child}` : child);
  }
  return there;
}

/**
 * Sets an element's text only if it differs, so that an unchanged page is not laid out again.
 *
 * @param {Element} place
 * @param {string} text
 */
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/**
 * A button.
 *
 * @param {string} text
 * @param {() => void} act
 * @param {Attributes} [attributes]
 */
export function button(text, act, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

/**
 * A section of a page with its heading.
 *
 * @param {string} name its place in the address
 * @param {string} title
 * @param {...Child} children
 */
export function section(name, title, ...children) {
  const heading = element("h2", { id: `${name}-title`, tabindex: -1 }, title);
  return element(
    "section",
    { class: `panel ${name}`, "data-section": name, "aria-labelledby": heading.id },
    heading,
    ...children,
  );
}
