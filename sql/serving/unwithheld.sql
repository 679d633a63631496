-- Purpose: whether the index has yet to be told to withhold something. Grain: one row.
SELECT EXISTS (SELECT FROM unwithheld) AS behind
