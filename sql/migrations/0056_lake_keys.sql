-- Which keys the tables of the lake hold, and when their rows were written: the files of a table are found by the times of their rows, so
-- that a look-up reads those that may hold a key instead of the key column of all.

-- Tables of the lake. complete: `lake_keys` has all of their rows; until then, those written before `after` (null: none for certain), and all
-- that were written since the table is here. Grain: table.
CREATE TABLE lake_tables (
    name text PRIMARY KEY,
    number integer GENERATED ALWAYS AS IDENTITY UNIQUE,
    complete boolean NOT NULL,
    after timestamptz
);

-- key: the first half of the SHA-256 of a row's key. A row is written before the rows of the lake, so one that the lake does not have is
-- possible, and one that is missing here is not, once the table is complete. Grain: (table, key, time).
CREATE TABLE lake_keys (
    lake_table integer NOT NULL,
    key uuid NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (lake_table, key, at)
);
