/**
 * The page of a link that signs a person in: show whom it is for, and put its token into the form.
 * The server verifies the token when the form is sent; here it is only read.
 */

import { byId } from "./dom.js";

/** @param {string} token @returns {{sub?: string, administrator?: boolean}} */
function claims(token) {
  try {
    const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname); // so that a copied address contains no token
const { sub, administrator } = claims(token);
if (sub) {
  byId("email").textContent = sub;
  byId("administrator").hidden = !administrator;
  /** @type {HTMLInputElement} */ (byId("token")).value = token;
  byId("link").hidden = false;
} else {
  byId("incomplete").hidden = false;
}
