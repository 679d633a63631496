/** The page of one's own account: end sessions. */

import { Problem, call } from "./api.js";
import { onceConfirmed } from "./confirm.js";
import { byId } from "./dom.js";

const buttons = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-session]"));

/** @param {HTMLElement[]} ended Buttons of the sessions to end */
async function end(ended) {
  try {
    for (const button of ended) {
      await call(`/api/sessions/${button.dataset.session}`, { method: "DELETE" });
      button.closest("li")?.remove();
    }
    byId("said").textContent = "Signed out there.";
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    byId("said").textContent = error.message;
  }
}

for (const button of buttons) onceConfirmed(button, "Sign out there?", "Sign out", () => end([button]));
const others = document.getElementById("others");
if (others) {
  onceConfirmed(others, "Sign out everywhere else?", "Sign out", async () => {
    await end([...buttons].filter((button) => button.isConnected));
    others.remove();
  });
}
