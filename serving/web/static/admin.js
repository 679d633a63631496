/** The administration pages: revoke keys, end sessions, decide on questions and propose them. */

import { call } from "./api.js";
import { confirmed, say } from "./confirm.js";

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-delete], button[data-post]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const { delete: deleted, post, decision, title, text = "", verb = "" } = button.dataset;
  const path = deleted ?? post;
  if (!path || (title && !(await confirmed(title, [text], verb)))) return;
  button.disabled = true;
  try {
    await call(path, deleted ? { method: "DELETE" } : { method: "POST", body: { decision } });
    location.reload();
  } catch (error) {
    button.disabled = false;
    say(error instanceof Error ? error.message : String(error), true);
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.dataset.feedback) return;
  event.preventDefault();
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  button.disabled = true;
  try {
    await call(`/api/feedback/${form.dataset.feedback}/question`, { method: "POST", body: { document: new FormData(form).get("document") } });
    form.replaceWith("proposed");
    say("The question is proposed: accept it under Questions.");
  } catch (error) {
    button.disabled = false;
    say(error instanceof Error ? error.message : String(error), true);
  }
});
