/** The page of one's own account: end sessions, disconnect agents, create and revoke keys, add and remove passkeys. */

import { call } from "./api.js";
import { onceConfirmed } from "./confirm.js";
import { byId } from "./dom.js";
import { act } from "./entries.js";
import "./passkeys.js";

const others = document.getElementById("others");
if (others) {
  onceConfirmed(others, "Sign out everywhere else?", "Sign out", async () => {
    const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-delete^='/api/sessions/']"));
    if (await act([...buttons])) others.remove();
  });
}

const form = /** @type {HTMLFormElement} */ (byId("new-key"));
const made = byId("made-key");
const problem = /** @type {HTMLElement} */ (form.querySelector("[role=alert]"));
const shown = /** @type {HTMLElement} */ (made.querySelector("code"));
const copy = byId("copy-key");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const chosen = new FormData(form);
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  button.disabled = true;
  problem.hidden = true;
  try {
    const body = { name: chosen.get("name"), scopes: chosen.getAll("scope"), expires_in_days: Number(chosen.get("days")) };
    if (!body.scopes.length) throw new Error("Choose what the key may do.");
    const { key } = await (await call("/api/keys", { method: "POST", body })).json();
    shown.textContent = key;
    copy.textContent = "Copy";
    form.hidden = true;
    made.hidden = false;
    made.focus();
  } catch (error) {
    problem.textContent = error instanceof Error ? error.message : String(error);
    problem.hidden = false;
  } finally {
    button.disabled = false;
  }
});

byId("key-kept").addEventListener("click", () => location.reload());
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(shown.textContent ?? "");
    copy.textContent = "Copied";
  } catch {
    getSelection()?.selectAllChildren(shown); // no clipboard without https: it can be copied by hand
  }
});
