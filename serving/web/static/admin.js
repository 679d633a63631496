/** The administration pages: buttons of entries, questions that are proposed from feedback, and documents that are taken down. */

import { call, Problem } from "./api.js";
import { confirmed, say } from "./confirm.js";
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

const takeDown = /** @type {HTMLFormElement | null} */ (document.getElementById("take-down"));
takeDown?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const id = String(new FormData(takeDown).get("document")).match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/i)?.[0];
  if (!id) return say("This is neither a document's address nor its ID.", true);
  const lines = [`${id} is hidden at once and erased after the retention time. The same content cannot be handed in again.`];
  if (!(await confirmed("Take this document down for good?", lines, "Take down"))) return;
  try {
    const answer = await call(`/api/documents/${id}`, { method: "DELETE" });
    takeDown.reset();
    say(`${(await answer.json()).message}.`);
  } catch (error) {
    const unknown = error instanceof Problem && error.status === 404;
    say(unknown ? "No upload or pushed document has this ID." : error instanceof Error ? error.message : String(error), true);
  }
});
