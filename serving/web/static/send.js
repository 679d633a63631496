/** Send a file to `POST /api/upload`. `fetch` does not report how much has been sent, so this is an XMLHttpRequest. */

import { Problem, toSignIn } from "./api.js";

const TRIES = 6;

/** @typedef {{title: string | null, tags: Record<string, unknown>, share: string[]}} Metadata */

/**
 * @param {File} file
 * @param {Metadata} metadata
 * @param {(share: number) => void} progress Receives the share that has been sent, 0 to 1
 * @param {(text: string) => void} note Receives what is being waited for
 * @returns {Promise<any>} The response. Raises `Problem`; waits when there are too many requests.
 */
export async function send(file, metadata, progress, note) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(file, metadata, progress);
    } catch (error) {
      if (!(error instanceof Problem) || !error.wait || attempt === TRIES) throw error;
      for (let left = Math.ceil(error.wait); left > 0; left--) {
        note(`${error.message} Trying again in ${left} s.`);
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
      note("Sending …");
    }
  }
}

/** @param {File} file @param {Metadata} metadata @param {(share: number) => void} progress @returns {Promise<any>} */
function once(file, metadata, progress) {
  const body = new FormData();
  body.append("metadata", JSON.stringify(metadata));
  body.append("file", file, file.name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/api/upload");
    request.setRequestHeader("X-Concordance", "1");
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onerror = () => reject(new Problem("The connection was lost. Try again.", 0));
    request.onload = () => {
      if (request.status === 202) return resolve(request.response);
      if (request.status === 401) toSignIn();
      const detail = request.response?.detail || request.response?.title || `Concordance answered with status ${request.status}.`;
      reject(new Problem(String(detail), request.status, Number(request.getResponseHeader("Retry-After")) || 0));
    };
    request.send(body);
  });
}
