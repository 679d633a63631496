/** Buttons that ask once more before they do what cannot be undone. */

const PATIENCE = 5000;

/** @param {HTMLElement} button @param {string} question @param {() => unknown} action */
export function confirmed(button, question, action) {
  const name = button.textContent;
  let timer = 0;
  const calm = () => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = name;
  };
  button.addEventListener("click", () => {
    if (timer) {
      calm();
      action();
    } else {
      button.textContent = question;
      timer = setTimeout(calm, PATIENCE);
    }
  });
  button.addEventListener("blur", calm);
}
