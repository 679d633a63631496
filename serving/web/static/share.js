/** Share an answer by link, and stop sharing it. */

import { Problem, call } from "./api.js";

/**
 * Share or stop sharing when a button is pressed.
 * @param {HTMLElement} button Its `data-shared` is `yes` or `no`
 * @param {HTMLElement} said Where to say what happened
 * @param {string} answerId
 */
export function sharing(button, said, answerId) {
  button.addEventListener("click", async () => {
    const shared = button.dataset.shared === "yes";
    try {
      const answer = await call(`/api/answers/${answerId}/share`, { method: shared ? "DELETE" : "PUT" });
      const state = await answer.json();
      button.dataset.shared = shared ? "no" : "yes";
      button.textContent = shared ? "Share by link" : "Stop sharing";
      said.textContent = shared ? "The link is closed." : await copied(new URL(state.link).pathname);
    } catch (error) {
      said.textContent = error instanceof Problem ? error.message : "That did not work. Try again.";
    }
  });
}

/** @param {string} path */
async function copied(path) {
  const address = location.origin + path;
  const who = "It opens for people who may read every source.";
  try {
    await navigator.clipboard.writeText(address);
    return `Link copied. ${who}`;
  } catch {
    return `${address} – ${who}`;
  }
}
