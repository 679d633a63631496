/** The page of one's own account: end sessions, and disconnect agents. */

import { onceConfirmed } from "./confirm.js";
import { act } from "./entries.js";

const others = document.getElementById("others");
if (others) {
  onceConfirmed(others, "Sign out everywhere else?", "Sign out", async () => {
    const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-delete^='/api/sessions/']"));
    if (await act([...buttons])) others.remove();
  });
}
