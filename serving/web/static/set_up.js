/** Set a source up: copy what its vendor asks for, check the credentials, and print the lines for `.env`. */

import { call } from "./api.js";
import { element, loading } from "./dom.js";

/**
 * The lines of `.env` for a form; secrets are left for the person to write.
 * @param {HTMLFormElement} form
 */
function lines(form) {
  const fields = /** @type {(HTMLInputElement | HTMLTextAreaElement)[]} */ ([...form.querySelectorAll("input, textarea")]);
  return fields
    .filter((field) => field.value.trim())
    .map((field) => `CONCORDANCE_${field.name.toUpperCase()}=${field.dataset.write ? `<${field.dataset.write}>` : field.value.trim()}`);
}

/** @param {any} found What the service says of the credentials @param {HTMLFormElement} form */
function report(found, form) {
  if (!found.account) return [element("p", { role: "alert" }, found.problem)];
  const first = found.first_sync;
  const count = `${found.place_count.toLocaleString("en")}${found.complete ? "" : " or more"}`;
  /** @param {number | null} value @param {string} unit */
  const figure = (value, unit) => (value === null ? null : element("li", {}, `${value.toLocaleString("en")} ${unit}`));
  return [
    element("h3", {}, found.ok ? `It works: ${found.account}` : found.account),
    found.problem && element("p", { role: "alert" }, found.problem),
    found.scopes.length > 0 &&
      element(
        "ul",
        { class: "plain-list", "aria-label": "Scopes" },
        ...found.scopes.map((/** @type {any} */ one) =>
          element("li", {}, element("span", { class: `badge ${one.granted ? "good" : one.required ? "bad" : ""}` }, one.granted ? "granted" : one.required ? "missing" : "optional"), " ", element("code", {}, one.name), ` ${one.purpose}`),
        ),
      ),
    found.place_count > 0 && element("p", {}, `It would read ${count}: ${found.places.join(", ")}${found.place_count > found.places.length ? ", …" : ""}`),
    first &&
      element(
        "div",
        {},
        element("h3", {}, "The first sync"),
        element(
          "ul",
          { class: "plain-list" },
          element("li", {}, `${first.documents.toLocaleString("en")}${found.complete ? "" : " or more"} files, ${megabytes(first.size)}`),
          figure(first.passages, "passages, about"),
          figure(first.tokens, "tokens to embed, about"),
          first.cost_usd !== null && element("li", {}, `${first.cost_usd.toFixed(2)} US dollars, about`),
          first.time && element("li", {}, `${first.time}, about`),
        ),
        element("p", { class: "tiny soft" }, first.basis),
      ),
    ...found.notes.map((/** @type {string} */ note) => element("p", { class: "note" }, note)),
    found.ok && next(lines(form)),
  ];
}

/** @param {number} bytes */
function megabytes(bytes) {
  return bytes < 1e6 ? "less than 1 MB" : bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

/** @param {string[]} wanted */
function next(wanted) {
  const text = wanted.join("\n");
  return element(
    "div",
    {},
    element("h3", {}, "Now put this into .env"),
    element("pre", {}, element("code", {}, text)),
    element("p", {}, element("button", { type: "button", class: "quiet", "data-copy": text }, "Copy"), " and run ", element("code", {}, "concordance restart"), "."),
  );
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.dataset.check) return;
  event.preventDefault();
  const outcome = /** @type {HTMLElement} */ (form.querySelector(".outcome"));
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button:not([type])"));
  const settings = Object.fromEntries([.../** @type {any} */ (new FormData(form))].filter(([, value]) => String(value).trim()));
  button.disabled = true;
  outcome.replaceChildren(loading());
  try {
    const answer = await call(`/api/sources/${form.dataset.check}/check`, { method: "POST", body: { settings } });
    outcome.replaceChildren(.../** @type {Node[]} */ (report(await answer.json(), form).filter(Boolean)));
  } catch (error) {
    outcome.replaceChildren(element("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
  } finally {
    button.disabled = false;
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy ?? "");
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it by hand";
  }
  setTimeout(() => (button.textContent = before), 2000);
});
