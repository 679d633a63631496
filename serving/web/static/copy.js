/** Copy an answer with the sources that it cites. */

/**
 * @param {HTMLElement} button
 * @param {HTMLElement} said Where to say what happened
 * @param {string} text The answer
 * @param {{index: number, title: string, link: string}[]} cited
 */
export function copying(button, said, text, cited) {
  const lines = cited.map((one) => `[${one.index}] ${one.title} – ${one.link}`);
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText([text, lines.join("\n")].filter(Boolean).join("\n\n"));
      said.textContent = "Copied.";
    } catch {
      said.textContent = "The browser does not allow this page to copy. Select the text instead.";
    }
  });
}
