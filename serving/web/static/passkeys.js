/** Add a passkey on the page of one's own account. */

import { call } from "./api.js";
import { byId } from "./dom.js";

const form = /** @type {HTMLFormElement | null} */ (document.getElementById("new-passkey"));

/** What the names of errors mean here. Source: https://www.w3.org/TR/webauthn-3/#sctn-createCredential */
const MEANINGS = new Map([
  ["NotAllowedError", "No passkey was added: it was cancelled, or it took too long."],
  ["InvalidStateError", "This device already has a passkey of yours."],
  ["ConstraintError", "This device cannot ask for a PIN, fingerprint or face, which a passkey needs here."],
]);

if (form) {
  if (location.origin !== form.dataset.origin) byId("passkeys-elsewhere").hidden = false;
  else if (typeof PublicKeyCredential === "function" && "parseCreationOptionsFromJSON" in PublicKeyCredential) form.hidden = false;
  else byId("passkeys-unsupported").hidden = false;
  const problem = /** @type {HTMLElement} */ (form.querySelector("[role=alert]"));
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      const { options, state } = await (await call("/me/passkeys/options", { method: "POST" })).json();
      const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
      const credential = JSON.stringify(await navigator.credentials.create({ publicKey }));
      await call("/me/passkeys", { method: "POST", body: { name: new FormData(form).get("name"), state, credential } });
      location.reload();
    } catch (error) {
      const meaning = error instanceof DOMException ? MEANINGS.get(error.name) : undefined;
      problem.textContent = meaning ?? String(error instanceof Error ? error.message : error);
      problem.hidden = false;
      button.disabled = false;
    }
  });
}
