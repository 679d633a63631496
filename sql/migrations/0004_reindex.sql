-- The model of each collection, so that queries and documents are always embedded by the one that belongs to it, and which collection
-- is being built (at most one) or was replaced and is kept for going back.
ALTER TABLE index_collections
    -- null: made before this was kept; the settings name the model
    ADD COLUMN provider text CHECK (provider IN ('local', 'openai')),
    -- a model's folder, or its name at the service; null: the bundled one
    ADD COLUMN model_source text,
    -- as asked of a model that lets one choose; null: its own
    ADD COLUMN model_dimensions integer,
    ADD COLUMN model_window integer,
    ADD COLUMN building boolean NOT NULL DEFAULT FALSE,
    ADD COLUMN replaced_at timestamptz;
CREATE UNIQUE INDEX index_collections_one_active ON index_collections (active) WHERE active;
CREATE UNIQUE INDEX index_collections_one_building ON index_collections (building) WHERE building;

-- What collections beside the active one are known to hold of a document, as documents.indexed_* say it of the active one; content
-- is empty while points are in motion. Grain: (collection, document).
CREATE TABLE index_entries (
    collection text NOT NULL REFERENCES index_collections (name) ON DELETE CASCADE,
    doc_id uuid NOT NULL REFERENCES documents (doc_id) ON DELETE CASCADE,
    content text NOT NULL DEFAULT '',
    payload text,
    chunk_count integer NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, doc_id)
);
CREATE INDEX index_entries_document ON index_entries (doc_id);

-- Passages of the collection beside the active one, which may be cut otherwise; the two tables change names when the collections
-- change places. Grain: chunk.
CREATE TABLE chunks_beside (LIKE chunks INCLUDING ALL);
ALTER TABLE chunks_beside ADD FOREIGN KEY (doc_id) REFERENCES documents (doc_id) ON DELETE CASCADE;
