-- Times that programs stated, by which versions are compared; that of a push without one says nothing about the next.

-- stated_at: the last change at the source as a program last stated it. Null: it has stated none.
ALTER TABLE uploads ADD COLUMN stated_at timestamptz CHECK (is_bounded(stated_at));

-- The clock of Postgres, which gave the others, counts microseconds.
UPDATE uploads SET stated_at = modified_at WHERE source = 'push' AND modified_at = date_trunc('milliseconds', modified_at);
