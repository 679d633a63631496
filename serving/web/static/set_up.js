/** Set a source up: copy what its vendor asks for, check the credentials, choose folders, and save them, or print the lines for `.env`. */

import { call, Problem } from "./api.js";
import { channels, folders } from "./choose.js";
import { confirmed, say } from "./confirm.js";
import { element, loading } from "./dom.js";

/** @typedef {{settings: Record<string, string>, chosen: Map<string, string>}} State The credentials to use, and the chosen folders */

/**
 * The lines of `.env` for a form; secrets are left for the person to write.
 * @param {HTMLFormElement} form @param {State} state
 */
function lines(form, { chosen }) {
  const fields = /** @type {(HTMLInputElement | HTMLTextAreaElement)[]} */ ([...form.querySelectorAll("[name]")]);
  const given = fields
    .filter((field) => field.value.trim())
    .map((field) => `${variable(form, field.dataset.variable ?? field.name)}=${field.dataset.write ? `<${field.dataset.write}>` : field.value.trim()}`);
  return chosen.size > 0 ? [...given, `${variable(form, form.dataset.choose)}=${[...chosen.keys()].join(",")}`] : given;
}

/** The variable of a setting. @param {HTMLFormElement} form @param {string} [name] */
function variable(form, name = "") {
  return `CONCORDANCE_${form.dataset.prefix ?? ""}${name}`.toUpperCase();
}

/** @param {string} source @param {Record<string, string>} settings */
async function check(source, settings) {
  return (await call(`/api/sources/${source}/check`, { method: "POST", body: { settings } })).json();
}

/** @param {any} found What the service says of the credentials @param {HTMLFormElement} form @param {State} state */
function report(found, form, state) {
  if (!found.account) return [element("p", { role: "alert" }, found.problem)];
  const count = `${found.place_count.toLocaleString("en")}${found.complete ? "" : " or more"}`;
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
    found.ok && "channels" in form.dataset && channels(form.dataset.check ?? "", state.settings),
    ...(found.ok && found.first_sync ? first(found, form, state) : [...notes(found), found.ok && next(form, state)]),
  ];
}

/** @param {any} found @param {HTMLFormElement} form @param {State} state */
function first(found, form, state) {
  return form.dataset.choose ? choice(found, form, state) : [...estimate(found), next(form, state)];
}

/** Choose folders; the estimate and the lines follow the choice. @param {any} found @param {HTMLFormElement} form @param {State} state */
function choice(found, form, state) {
  const { chosen } = state;
  const { check: source = "", choose = "" } = form.dataset;
  const summary = element("div", { role: "status" });
  const outcome = element("div", {}, .../** @type {Node[]} */ (estimate(found)));
  const env = element("div", {}, next(form, state));
  let counted = [...chosen.keys()].join();
  const show = () => {
    env.replaceChildren(next(form, state));
    summary.replaceChildren(...described(chosen, show));
    if (counted !== [...chosen.keys()].join()) outcome.replaceChildren(element("button", { type: "button", class: "quiet", onclick: count }, "Estimate the first sync"));
  };
  const count = async () => {
    const roots = [...chosen.keys()].join();
    outcome.replaceChildren(loading());
    try {
      const again = await check(source, { ...state.settings, ...(roots ? { [choose]: roots } : {}) });
      counted = roots;
      outcome.replaceChildren(...(again.account ? /** @type {Node[]} */ (estimate(again)) : [element("p", { role: "alert" }, again.problem)]));
      if (roots !== [...chosen.keys()].join()) show();
    } catch (error) {
      outcome.replaceChildren(element("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  };
  summary.replaceChildren(...described(chosen, show));
  return [element("h3", {}, "Choose what is read"), folders(source, state.settings, chosen, show), summary, outcome, env];
}

/** What is chosen, with a button to leave each out again. @param {Map<string, string>} chosen @param {() => void} changed */
function described(chosen, changed) {
  if (chosen.size === 0) return [element("p", { class: "tiny soft" }, "Nothing is chosen: everything that the account sees is read, and what it will see later.")];
  /** @param {string} id */
  const remove = (id) => {
    const box = /** @type {HTMLInputElement | null} */ (document.querySelector(`.tree input[value="${CSS.escape(id)}"]`));
    if (box) return box.click();
    chosen.delete(id);
    changed();
  };
  const chips = [...chosen].map(([id, name]) => element("li", { class: "chip" }, name, element("button", { type: "button", "aria-label": `Leave out ${name}`, onclick: () => remove(id) }, "×")));
  return [element("ul", { class: "chips", "aria-label": "Chosen" }, ...chips)];
}

/** @param {any} found */
function estimate(found) {
  const first = found.first_sync;
  /** @param {number | null} value @param {string} unit */
  const figure = (value, unit) => value !== null && element("li", {}, `about ${value.toLocaleString("en")} ${unit}`);
  return [
    element("h3", {}, "The first sync"),
    element(
      "ul",
      { class: "plain-list" },
      element("li", {}, `${first.documents.toLocaleString("en")}${found.complete ? "" : " or more"} ${first.documents === 1 && found.complete ? "file" : "files"}, ${megabytes(first.size)}`),
      figure(first.passages, "passages"),
      figure(first.tokens, "tokens to embed"),
      first.cost_usd > 0 && element("li", {}, `about ${first.cost_usd.toFixed(2)} US dollars`),
      first.time && element("li", {}, `about ${first.time}`),
    ),
    element("p", { class: "tiny soft" }, first.basis),
    ...notes(found),
  ];
}

/** @param {any} found */
function notes(found) {
  return found.notes.map((/** @type {string} */ note) => element("p", { class: "note" }, note));
}

/** @param {number} bytes */
function megabytes(bytes) {
  return bytes < 1e6 ? "less than 1 MB" : bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

/** What to do once the credentials work. @param {HTMLFormElement} form @param {State} state */
function next(form, state) {
  if ("save" in form.dataset) return saving(form, state);
  const wanted = lines(form, state);
  if (wanted.length === 0) return form.dataset.roots ? element("p", {}, "To read everything, remove ", element("code", {}, variable(form, form.dataset.choose)), " from .env and run ", element("code", {}, "concordance restart"), ".") : "";
  const text = wanted.join("\n");
  return element(
    "div",
    {},
    element("h3", {}, "Now put this into .env"),
    element("pre", {}, element("code", {}, text)),
    element("p", {}, element("button", { type: "button", class: "quiet", "data-copy": text }, "Copy"), " and run ", element("code", {}, "concordance restart"), "."),
  );
}

/** A button that saves, and then starts a sync or leads to the provider's consent page. @param {HTMLFormElement} form @param {State} state */
function saving(form, { settings, chosen }) {
  const { check: source = "", save = "", then, choose } = form.dataset;
  const forgotten = Object.fromEntries(save.split(",").filter(Boolean).map((name) => [name, null]));
  const roots = choose ? { [choose]: [...chosen.keys()].join(",") || null } : {};
  const button = /** @type {HTMLButtonElement} */ (element("button", { type: "button", "data-saves": true }, then ? "Save and connect an account" : "Save and sync now"));
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await store(source, { ...forgotten, ...settings, ...roots });
      if (!then) await begin(source);
      location.assign(then ?? `/sources#source-${source}`);
    } catch (error) {
      button.disabled = false;
      say(error instanceof Error ? error.message : String(error), true);
    }
  });
  return element("p", {}, button);
}

/** @param {string} source @param {Record<string, string | null>} settings */
async function store(source, settings) {
  await call(`/api/sources/${source}/settings`, { method: "PATCH", body: { settings } });
}

/** Start a sync, unless one runs already. @param {string} source */
async function begin(source) {
  try {
    await call(`/api/sync/${source}`, { method: "POST", body: {} });
  } catch (error) {
    if (!(error instanceof Problem && error.status === 409)) throw error;
  }
}

/** @param {HTMLButtonElement} button */
async function forget(button) {
  const { forget: source = "", names = "", label = "" } = button.dataset;
  if (!(await confirmed(`Forget how to read ${label}?`, ["It is no longer synced. What was indexed stays, and can be found for as long as its permissions count as current."], "Forget it"))) return;
  try {
    await store(source, Object.fromEntries(names.split(",").map((name) => [name, null])));
    location.reload();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
  }
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.dataset.check) return;
  event.preventDefault();
  const outcome = /** @type {HTMLElement} */ (form.querySelector(".outcome"));
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button:not([type])"));
  const settings = Object.fromEntries([.../** @type {any} */ (new FormData(form))].filter(([, value]) => String(value).trim()));
  const roots = form.dataset.roots?.split(",").filter(Boolean) ?? [];
  const state = { settings, chosen: new Map(roots.map((id) => [id, id])) };
  button.disabled = true;
  outcome.replaceChildren(loading());
  try {
    const asked = roots.length > 0 ? { ...settings, [form.dataset.choose ?? ""]: roots.join(",") } : settings;
    const found = await check(form.dataset.check, asked);
    outcome.replaceChildren(.../** @type {Node[]} */ (report(found, form, state).filter(Boolean)));
  } catch (error) {
    outcome.replaceChildren(element("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
  } finally {
    button.disabled = false;
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-copy], button[data-forget]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  if (button.dataset.forget) return forget(button);
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy ?? "");
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it by hand";
  }
  setTimeout(() => (button.textContent = before), 2000);
});
