/** Sign in with a passkey: ask the device to sign a challenge, and send what it signed with the form. */

import { call } from "./api.js";
import { byId } from "./dom.js";

const form = /** @type {HTMLFormElement} */ (byId("passkey"));
const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
const problem = /** @type {HTMLElement} */ (form.querySelector("[role=alert]"));
const { origin } = form.dataset;

if (location.origin !== origin) byId("passkey-elsewhere").hidden = false;
else if (typeof PublicKeyCredential === "function" && "parseRequestOptionsFromJSON" in PublicKeyCredential) form.hidden = false;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  problem.textContent = "";
  try {
    const { options, state } = await (await call("/sign-in/passkey/options", { method: "POST" })).json();
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
    const credential = /** @type {PublicKeyCredential} */ (await navigator.credentials.get({ publicKey }));
    /** @type {HTMLInputElement} */ (form.elements.namedItem("state")).value = state;
    /** @type {HTMLInputElement} */ (form.elements.namedItem("credential")).value = JSON.stringify(credential);
    form.submit();
  } catch (error) {
    const cancelled = error instanceof DOMException && error.name === "NotAllowedError";
    problem.textContent = cancelled ? "No passkey was used: this device has none for this site, it was cancelled, or it took too long." : String(error instanceof Error ? error.message : error);
    button.disabled = false;
  }
});
