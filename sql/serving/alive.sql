-- Purpose: whether Postgres answers. Grain: one row.
SELECT 1 AS alive
