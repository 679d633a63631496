-- Purpose: whether a source other than `push` has a partition of this name. Parameters: partition. Grain: one row. Index: primary key of
-- partitions: there are few.
SELECT EXISTS (SELECT 1 FROM partitions WHERE partition = %(partition)s AND source <> 'push') AS taken
