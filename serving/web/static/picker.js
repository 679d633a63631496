/** Choose who may read a document: a field with suggestions, and the choices as chips. */

import { Problem, call } from "./api.js";
import { element } from "./dom.js";

const PAUSE = 200;
let pickers = 0;

/**
 * @param {HTMLElement} field Holds a label and a text field
 * @param {string[]} chosen Principals to begin with
 */
export function picker(field, chosen = []) {
  const input = /** @type {HTMLInputElement} */ (field.querySelector("input"));
  const id = `suggestions-${++pickers}`;
  const chips = element("ul", { class: "chips", "aria-label": "Shared with" });
  const list = element("ul", { class: "suggestions", id, role: "listbox", "aria-label": "Suggestions", hidden: true });
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list" })) input.setAttribute(name, value);
  input.before(chips);
  input.after(list);
  /** @type {Map<string, string>} Names by principal */
  const readers = new Map();
  /** @type {{principal: string, name: string}[]} */
  let offered = [];
  let active = -1, timer = 0;
  /** @type {AbortController | null} */
  let running = null;

  /** @param {string} principal @param {string} [name] */
  function add(principal, name = named(principal)) {
    if (principal) readers.set(principal, name);
    input.value = "";
    close();
    draw();
  }

  function draw() {
    chips.replaceChildren(...[...readers].map(([principal, name]) => element("li", { class: "chip" }, name, element("button", { type: "button", "aria-label": `Do not share with ${name}`, onclick: () => {
      readers.delete(principal);
      draw();
      input.focus();
    } }, "×"))));
  }

  function close() {
    running?.abort();
    clearTimeout(timer);
    show([]);
  }

  /** @param {{principal: string, name: string}[]} found */
  function show(found) {
    offered = found.filter((one) => !readers.has(one.principal));
    list.replaceChildren(...offered.map((one, at) => element("li", { role: "option", id: `${id}-${at}`, "aria-selected": "false", onpointerdown: (/** @type {Event} */ event) => {
      event.preventDefault();
      add(one.principal, one.name);
    } }, element("b", {}, one.name), one.name === one.principal || one.principal.includes(":") ? null : element("span", { class: "soft" }, ` ${one.principal}`))));
    list.hidden = !offered.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    point(-1);
  }

  /** @param {number} at */
  function point(at) {
    active = at;
    [...list.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === at)));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `${id}-${at}`);
  }

  async function suggest() {
    running?.abort();
    const mine = (running = new AbortController());
    try {
      const answer = await call(`/api/principals?${new URLSearchParams({ prefix: input.value.trim() })}`, { signal: mine.signal });
      show((await answer.json()).principals);
    } catch (error) {
      if (error instanceof Problem) show([]); // whole addresses can be typed without suggestions
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, PAUSE);
  });
  input.addEventListener("focus", suggest);
  input.addEventListener("blur", close); // what was typed counts without becoming a chip, which would move what is being clicked
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!offered.length) return;
      event.preventDefault();
      point((active + (event.key === "ArrowDown" ? 1 : -1) + offered.length + (active < 0 && event.key === "ArrowUp" ? 1 : 0)) % offered.length);
    } else if (event.key === "Enter" || event.key === ",") {
      if (!input.value.trim() && active < 0) return;
      event.preventDefault();
      if (active >= 0) add(offered[active].principal, offered[active].name);
      else add(input.value.trim());
    } else if (event.key === "Escape") close();
    else if (event.key === "Backspace" && !input.value && readers.size) {
      readers.delete([...readers.keys()].pop() ?? "");
      draw();
    }
  });
  for (const one of chosen) readers.set(one, named(one));
  draw();
  /** Take all choices back. */
  function clear() {
    readers.clear();
    input.value = "";
    close();
    draw();
  }

  return { input, clear, values: () => [...readers.keys(), ...(input.value.trim() ? [input.value.trim()] : [])] };
}

/** @param {string} principal */
function named(principal) {
  const [kind, name] = principal.split(/:(.*)/s);
  const words = { domain: "Everyone at", group: "Group", slack: "Slack workspace" };
  return name && kind in words ? `${words[/** @type {keyof typeof words} */ (kind)]} ${name}` : principal;
}
