-- Purpose: a user's principals from sources, in addition to the token, and the versions of the index. Sources and groups that were not
-- read recently are ignored; `blocked` is true once any of them has reported the user as inactive, however long ago, and `revoked` if the
-- token is on the deny-list, or was made before a source gave the address to another account: in an earlier second, as tokens have whole
-- ones. `read_sources`: those that were ever read. Parameters: email, fresh_since, token_id, issued (Unix time; null: not a token of ours).
-- Grain: one row always. Indexes: directory_email, people_email, primary keys of source_states and revoked_tokens.
SELECT
    v.version AS index_version,
    (SELECT coalesce(jsonb_object_agg(c.source, c.version), '{}') FROM source_versions AS c) AS source_versions,
    ARRAY(
        SELECT d.principal
        FROM directory AS d
        INNER JOIN source_states AS s ON d.source = s.source
        WHERE
            d.email = %(email)s
            AND s.directory_at >= %(fresh_since)s
            AND (d.read_at IS NULL OR d.read_at >= %(fresh_since)s)
    ) AS principals,
    ARRAY(SELECT r.source FROM source_states AS r WHERE r.directory_at IS NOT NULL) AS read_sources,
    EXISTS (SELECT 1 FROM people AS p WHERE p.email = %(email)s AND NOT p.active) AS blocked,
    EXISTS (SELECT 1 FROM revoked_tokens AS r WHERE r.token_id = %(token_id)s)
    OR EXISTS (
        SELECT 1 FROM people AS t
        WHERE t.email = %(email)s AND floor(extract(EPOCH FROM t.tokens_since)) > %(issued)s::double precision
    ) AS revoked
FROM index_version AS v
