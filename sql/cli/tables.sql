-- A table that the database has, of any schema but those of Postgres: none in an empty database. Grain: table.
SELECT schemaname || '.' || tablename AS name
FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
ORDER BY name
LIMIT 1;
