-- Versions of what the index holds of each source: raised by each change that a search of the source may show. `index_version` is that of
-- the index as a whole, which a change of its collection raises. Grain: source.
CREATE TABLE source_versions (
    source text PRIMARY KEY,
    version bigint NOT NULL
) WITH (fillfactor = 50);
