/** The administration pages: buttons of entries, and questions that are proposed from feedback. */

import { call } from "./api.js";
import { say } from "./confirm.js";
import "./entries.js";

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
