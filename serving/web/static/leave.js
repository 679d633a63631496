/** The page after signing out: go on to the provider's page without a click. */

import { byId } from "./dom.js";

/** @type {HTMLFormElement} */ (byId("leave")).submit();
