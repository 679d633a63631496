-- Purpose: what was embedded in a month. Parameters: month. Grain: one row. Index: primary key.
SELECT
    coalesce(sum(texts), 0)::bigint AS texts,
    coalesce(sum(tokens), 0)::bigint AS tokens,
    coalesce(sum(cost_usd), 0)::float8 AS cost_usd
FROM embedding_usage
WHERE month = %(month)s;
