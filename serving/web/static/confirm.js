/** Ask before something that cannot be taken back, and say what happened. */

import { byId, element } from "./dom.js";

/**
 * @param {string} title
 * @param {string[]} lines
 * @param {string} verb What the button says that does it
 * @returns {Promise<boolean>}
 */
export function confirmed(title, lines, verb) {
  return new Promise((resolve) => {
    const dialog = /** @type {HTMLDialogElement} */ (
      element(
        "dialog",
        { "aria-labelledby": "confirm-title" },
        element("h2", { id: "confirm-title" }, title),
        ...lines.map((line) => element("p", {}, line)),
        element(
          "div",
          { class: "row" },
          element("button", { class: "danger", onclick: () => dialog.close("yes") }, verb),
          element("button", { class: "quiet", autofocus: true, onclick: () => dialog.close() }, "Cancel"),
        ),
      )
    );
    const before = document.activeElement;
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before instanceof HTMLElement) before.focus();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Ask before a button does what it says.
 * @param {HTMLElement} button
 * @param {string} title
 * @param {string} verb What the button of the question says
 * @param {() => unknown} action
 * @param {string[]} [lines] What else to say
 */
export function onceConfirmed(button, title, verb, action, lines = []) {
  button.addEventListener("click", async () => {
    if (await confirmed(title, lines, verb)) await action();
  });
}

/** Show a line at the top of the page. @param {string} text @param {boolean} [bad] */
export function say(text, bad = false) {
  const line = byId("status");
  line.className = bad ? "note bad" : "note";
  line.hidden = false;
  line.textContent = text;
  line.scrollIntoView({ block: "nearest" });
}
