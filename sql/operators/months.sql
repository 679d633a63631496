-- Purpose: what was embedded in each of the latest months. Parameters: most. Grain: month, the latest first. Index: primary key.
SELECT
    month,
    sum(texts)::bigint AS texts,
    sum(tokens)::bigint AS tokens,
    sum(cost_usd)::float8 AS cost_usd
FROM embedding_usage
GROUP BY month
ORDER BY month DESC
LIMIT %(most)s::bigint;
