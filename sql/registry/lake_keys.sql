-- The keys that the lake's tables hold, with the times of their rows. Grain: (table, key, time), unless a statement says otherwise.

-- name: table_of
-- A table: its number, whether all of its rows are listed, and if not, up to which time. Grain: one row. Index: primary key.
SELECT number, complete, after FROM lake_tables WHERE name = :name;

-- name: add_table!
-- Parameters: name, complete (the lake holds nothing of it yet). Grain: table.
INSERT INTO lake_tables (name, complete) VALUES (:name, :complete) ON CONFLICT (name) DO NOTHING;

-- name: listed!
-- Save up to which time the rows of a table are listed, null: all. Parameters: number, after. Grain: table.
UPDATE lake_tables SET complete = :after::timestamptz IS NULL, after = :after WHERE number = :number AND NOT complete;

-- name: add!
-- Add keys with the times of their rows. Sorted, so that two processes wait for each other in one order.
INSERT INTO lake_keys (lake_table, key, at)
SELECT :number, k.key, k.at
FROM unnest(:keys::uuid [], :times::timestamptz []) AS k (key, at)
ORDER BY k.key, k.at
ON CONFLICT DO NOTHING;

-- name: times
-- When rows of these keys were written. Grain: time. Index: primary key, for each key: `OFFSET 0` keeps every plan from reading all keys.
WITH wanted AS (
    SELECT k.key FROM unnest(:keys::uuid []) AS k (key)
),

listed AS (
    SELECT f.at
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT l.at FROM lake_keys AS l WHERE l.lake_table = :number AND l.key = w.key ORDER BY l.at OFFSET 0
    ) AS f
)

SELECT DISTINCT at FROM listed ORDER BY at;

-- name: forget!
-- Remove keys, with all their times. Index: primary key.
DELETE FROM lake_keys WHERE lake_table = :number AND key = ANY(:keys::uuid []);

-- name: forget_times!
-- Remove keys with one time each. Index: primary key.
DELETE FROM lake_keys AS l
USING unnest(:keys::uuid [], :times::timestamptz []) AS k (key, at)
WHERE l.lake_table = :number AND l.key = k.key AND l.at = k.at;

-- name: forget_all!
DELETE FROM lake_keys WHERE lake_table = :number;
