/** The ends of a run's logs. */

import { at, getText, told } from "./api.js";
import { button, element, fill, section } from "./element.js";

/** The section. @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
export function logs(run, signal) {
  const name = element("select", { "aria-label": "Log" });
  const text = element(
    "pre",
    { class: "tall", tabindex: 0, role: "region", "aria-label": "The end of the log" },
    "Choose a log and load it.",
  );
  const load = button("Load its end", async () => {
    if (!name.value) return;
    try {
      text.textContent =
        (await getText(at(run.id, `logs/${encodeURIComponent(name.value)}`, { bytes: 65_536 }), signal)) ||
        "This log is empty.";
    } catch (error) {
      text.textContent = told(error);
    }
    text.scrollTop = text.scrollHeight;
  });
  const toolbar = element("div", { class: "toolbar" }, name, load);
  let shown = "";

  function offer() {
    const { logs: names } = run.details.files;
    if (names.join("\n") === shown) return;
    shown = names.join("\n");
    const chosen = name.value;
    fill(name, ...names.map((one) => element("option", {}, one)));
    if (names.includes(chosen)) name.value = chosen;
  }

  function show() {
    offer();
    toolbar.hidden = !run.details.files.logs.length;
    if (toolbar.hidden) text.textContent = "This run has no logs.";
  }

  run.changed.on(show, signal);
  show();
  return section("logs", "Logs", toolbar, text);
}
