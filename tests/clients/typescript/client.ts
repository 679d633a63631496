// Searches, uploads, asks, reads a streamed answer and problems with types that openapi-typescript generated, and prints what it got.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Result = components["schemas"]["Result"];
type Answer = components["schemas"]["AnswerResponse"];
type StreamEvent = paths["/api/ask"]["post"]["responses"]["200"]["content"]["text/event-stream"];

const [url, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

const found = await client.POST("/api/rag/search", { body: { query: "When is tea served?", top_k: 1, mode: "hybrid" } });
const results: Result[] = found.data?.results ?? [];
console.log("search:", found.response.status, results[0]?.title, "-", results[0]?.citation.text);

const form = new FormData();
form.append("file", new File(["# Soup\n\nSoup is served on Mondays."], "soup.md"));
form.append("metadata", JSON.stringify({ title: "Soup", tags: { topic: "kitchen" } }));
const uploaded = await client.POST("/api/upload", {
  body: { file: "soup.md" },
  bodySerializer: () => form,
});
console.log("upload:", uploaded.response.status, uploaded.data?.status, "-", uploaded.data?.message);

const answer = await client.POST("/api/ask", { body: { query: "When is tea served?" }, parseAs: "json" });
console.log("ask:", answer.response.status, answer.data && "answer" in answer.data ? answer.data.answer : undefined);

const streamed = await client.POST("/api/ask", { body: { query: "When is tea served?", stream: true }, parseAs: "text" });
let text = "";
for (const block of String(streamed.data).split(/\r?\n\r?\n/)) {
  const fields = Object.fromEntries(block.split(/\r?\n/).map((line) => line.split(/: (.*)/s, 2)));
  const event = fields as StreamEvent; // a browser's EventSource gives the same two fields
  if (event.event === "token") text += (JSON.parse(event.data) as components["schemas"]["TokenEvent"]).text;
  if (event.event === "done") console.log("stream:", text === (JSON.parse(event.data) as Answer).answer, "-", text);
}

const listed = await client.GET("/api/documents", { params: { query: { title: "tea", limit: 1 } } });
console.log("list:", listed.response.status, listed.data?.total, listed.data?.documents[0]?.title);

const wrong = await client.GET("/api/documents/{doc_id}", {
  params: { path: { doc_id: "00000000-0000-4000-8000-000000000000" } },
});
console.log("problem:", wrong.response.status, wrong.error?.type, "-", wrong.error?.title);

const invalid = await client.POST("/api/rag/search", { body: { query: "tea", top_k: 99 } });
const fault = invalid.error?.errors?.[0];
console.log("invalid:", invalid.response.status, fault?.field, "-", fault?.allowed);
