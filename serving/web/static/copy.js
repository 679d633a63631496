/** Copy an answer with the sources that it cites. */

/**
 * @param {HTMLElement} button
 * @param {HTMLElement} said Where to say what happened
 * @param {string} answer
 * @param {{index: number, title: string, link: string}[]} cited In their order on the page
 * @param {(index: number) => number} number Numbers for readers
 */
export function copying(button, said, answer, cited, number) {
  const text = answer.replace(/`[^`\n]+`|\[(\d{1,2})\]/g, (all, index) => (index ? `[${number(Number(index))}]` : all)); // not in code
  const lines = cited.map((one) => `[${number(one.index)}] ${one.title} – ${one.link}`);
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
