/** All settings of a run; those that differ from the defaults are marked and come first. */

import { element, fill, section } from "./element.js";
import { plain } from "./text.js";

/** The section. @param {import("./watched.js").Watched} run */
export function settings(run) {
  const { all_settings: all, settings: own } = run.details;
  const search = element("input", { type: "search", placeholder: "find a setting", "aria-label": "Find a setting" });
  const names = Object.keys(all).sort((a, b) => Number(b in own) - Number(a in own));
  const rows = names.map((name) => {
    const differs = name in own;
    const mark = differs ? element("small", { class: "own" }, "set") : null;
    return element(
      "tr",
      { "data-name": name },
      element("th", { scope: "row" }, name, " ", mark),
      element("td", {}, plain(all[name])),
    );
  });
  const none = element("p", { class: "note", hidden: true }, "No setting has this in its name or value.");

  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !(row.textContent ?? "").toLowerCase().includes(wanted);
    none.hidden = rows.some((row) => !row.hidden);
  });
  const body = element("tbody");
  fill(body, ...rows);
  const table = element("table", {}, element("caption", { class: "hidden" }, "Settings"), body);
  return section(
    "settings",
    "Settings",
    element(
      "div",
      { class: "toolbar" },
      search,
      element("small", { class: "note" }, `${Object.keys(own).length} differ from the defaults`),
    ),
    element("div", { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "Settings" }, table),
    none,
  );
}
