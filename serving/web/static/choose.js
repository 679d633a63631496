/** Choose drives, folders or channels of a source while it is set up. Nothing is saved here. */

import { call } from "./api.js";
import { element, loading } from "./dom.js";

/** @typedef {{id: string, name: string, opens: boolean, readable: boolean}} Place */
/** @typedef {{problem: string | null, places: Place[], complete: boolean}} Places */

/** The latest request: one follows the other, since the service limits those at once. @type {Promise<unknown>} */
let latest = Promise.resolve();

/**
 * The places directly inside one, as the source shows them.
 * @param {string} source @param {Record<string, string>} settings Credentials; none: the configured ones @param {string | null} inside
 * @returns {Promise<Places>}
 */
async function level(source, settings, inside) {
  const asked = latest.then(() => call(`/api/sources/${source}/places`, { method: "POST", body: { settings, inside } }));
  latest = asked.catch(() => null);
  const found = await (await asked).json();
  if (found.problem) throw new Error(found.problem);
  return found;
}

/** Fill a box once its content has arrived. @param {HTMLElement} box @param {() => Promise<Node[]>} content */
async function fill(box, content) {
  box.replaceChildren(loading());
  try {
    box.replaceChildren(...(await content()));
  } catch (error) {
    box.replaceChildren(element("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
  }
}

/** @param {boolean} complete @param {string} what */
function more(complete, what) {
  return complete ? [] : [element("p", { class: "tiny soft" }, `There are more ${what}, which are not shown.`)];
}

/**
 * A tree of drives and folders with checkboxes. A chosen one includes what it contains.
 * @param {string} source @param {Record<string, string>} settings
 * @param {Map<string, string>} chosen Names by ID, changed in place @param {() => void} changed
 */
export function folders(source, settings, chosen, changed) {
  /** @param {HTMLElement} item @param {boolean} included */
  function include(item, included) {
    for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (item.querySelectorAll(":scope ul input"))) {
      if (included) chosen.delete(box.value);
      box.disabled = included;
      box.checked = included || chosen.has(box.value);
    }
  }

  /** @param {Place} place @param {boolean} included */
  function entry(place, included) {
    const box = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", value: place.id, "aria-label": place.name }));
    box.checked = included || chosen.has(place.id);
    box.disabled = included;
    if (chosen.has(place.id)) chosen.set(place.id, place.name);
    const item = element("li", {});
    box.addEventListener("change", () => {
      if (box.checked) chosen.set(place.id, place.name);
      else chosen.delete(place.id);
      include(item, box.checked);
      changed();
    });
    const inner = element("div", {});
    const open = element("details", {}, element("summary", {}, place.name), inner);
    open.addEventListener("toggle", () => open.hasAttribute("open") && !inner.querySelector("ul, .loading") && fill(inner, () => list(place.id, () => box.checked)));
    item.append(box, open);
    return item;
  }

  /** @param {string | null} inside @param {() => boolean} included */
  async function list(inside, included) {
    const found = await level(source, settings, inside);
    if (found.places.length === 0) return [element("p", { class: "tiny soft" }, "There are no folders in it.")];
    const items = found.places.map((place) => entry(place, included()));
    changed();
    return [element("ul", { class: "plain-list" }, ...items), ...more(found.complete, "folders")];
  }

  const box = element("div", { class: "tree", role: "group", "aria-label": "Drives and folders" });
  fill(box, () => list(null, () => false)).then(() => box.querySelectorAll("details").forEach((one) => (one.open = true)));
  return box;
}

/** The channels of a workspace, to look through by name. @param {string} source @param {Record<string, string>} settings */
export function channels(source, settings) {
  const box = element("div", {});
  fill(box, async () => {
    const found = await level(source, settings, null);
    const wanted = /** @type {HTMLInputElement} */ (element("input", { type: "search", id: "channel-name", autocomplete: "off" }));
    const count = element("p", { class: "tiny soft", role: "status" });
    const items = found.places.map((place) => element("li", {}, element("span", { class: `badge ${place.readable ? "good" : ""}` }, place.readable ? "the app is a member" : "invite it"), ` #${place.name}`));
    const show = () => {
      const part = wanted.value.trim().replace(/^#/, "").toLowerCase();
      found.places.forEach((place, index) => (items[index].hidden = !place.name.toLowerCase().includes(part)));
      count.textContent = `${items.filter((item) => !item.hidden).length.toLocaleString("en")} of ${items.length.toLocaleString("en")} channels`;
    };
    wanted.addEventListener("input", show);
    wanted.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault()); // it would check the token again
    show();
    return [
      element("div", { class: "field" }, element("label", { for: "channel-name" }, "Channels by name"), wanted),
      count,
      element("ul", { class: "plain-list tall", tabindex: "0", "aria-label": "Channels" }, ...items),
      ...more(found.complete, "channels"),
    ];
  });
  return box;
}
