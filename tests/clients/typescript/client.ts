// Searches, uploads, asks and reads a problem with types that openapi-typescript generated, and prints what it got.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Result = components["schemas"]["Result"];

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

const listed = await client.GET("/api/documents", { params: { query: { title: "tea", limit: 1 } } });
console.log("list:", listed.response.status, listed.data?.total, listed.data?.documents[0]?.title);

const wrong = await client.GET("/api/documents/{doc_id}", {
  params: { path: { doc_id: "00000000-0000-4000-8000-000000000000" } },
});
console.log("problem:", wrong.response.status, wrong.error?.type, "-", wrong.error?.title);
