-- Purpose: whether anything at all is indexed, whoever may read it. Grain: one row.
SELECT EXISTS (SELECT 1 FROM chunks) AS indexed
