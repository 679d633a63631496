/** The administration pages: revoke keys and end sessions. */

import { call } from "./api.js";
import { confirmed, say } from "./confirm.js";

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-delete]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const { delete: path, title = "", text = "", verb = "" } = button.dataset;
  if (!path || !(await confirmed(title, [text], verb))) return;
  button.disabled = true;
  try {
    await call(path, { method: "DELETE" });
    location.reload();
  } catch (error) {
    button.disabled = false;
    say(error instanceof Error ? error.message : String(error), true);
  }
});
