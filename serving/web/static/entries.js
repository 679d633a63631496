/** Buttons of the entries of a list, which ask first: end a session or agent, revoke a key, decide on a question. */

import { Problem, call } from "./api.js";
import { confirmed, say } from "./confirm.js";

/** What is over already, elsewhere, needs no ending. @param {unknown} error */
function unlessOver(error) {
  if (!(error instanceof Problem && error.status === 404)) throw error;
}

/**
 * Do what buttons say. An entry leaves the page if `data-said` has the words for that; otherwise the page is loaded again.
 * @param {HTMLButtonElement[]} buttons
 * @returns {Promise<boolean>} whether everything was done
 */
export async function act(buttons) {
  for (const button of buttons) button.disabled = true;
  try {
    for (const button of buttons) {
      const { delete: ended, post = "", decision, said } = button.dataset;
      await (ended ? call(ended, { method: "DELETE" }).catch(unlessOver) : call(post, { method: "POST", body: { decision } }));
      if (said) {
        const entry = button.closest("li");
        const next = entry?.nextElementSibling ?? entry?.previousElementSibling;
        entry?.remove();
        say(said);
        next?.querySelector("button")?.focus();
      } else location.reload();
    }
    return true;
  } catch (error) {
    for (const button of buttons) button.disabled = false;
    say(error instanceof Error ? error.message : String(error), true);
    return false;
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-delete], button[data-post]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const { title, text, verb = "" } = button.dataset;
  if (!title || (await confirmed(title, text ? [text] : [], verb))) await act([button]);
});
