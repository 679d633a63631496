/** The page of one's own account: end sessions, and disconnect agents. */

import { Problem, call } from "./api.js";
import { onceConfirmed } from "./confirm.js";
import { byId } from "./dom.js";

const sessions = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-session]"));
const agents = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-agent]"));

/**
 * @param {HTMLElement[]} ended Buttons of what to end
 * @param {string} said What to say then
 */
async function end(ended, said) {
  try {
    for (const button of ended) {
      const { session, agent } = button.dataset;
      await call(session ? `/api/sessions/${session}` : `/api/agents/${agent}`, { method: "DELETE" });
      button.closest("li")?.remove();
    }
    byId("said").textContent = said;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    byId("said").textContent = error.message;
  }
}

for (const button of sessions) onceConfirmed(button, "Sign out there?", "Sign out", () => end([button], "Signed out there."));
for (const button of agents) onceConfirmed(button, "Disconnect this agent?", "Disconnect", () => end([button], "Disconnected."));
const others = document.getElementById("others");
if (others) {
  onceConfirmed(others, "Sign out everywhere else?", "Sign out", async () => {
    await end([...sessions].filter((button) => button.isConnected), "Signed out there.");
    others.remove();
  });
}
