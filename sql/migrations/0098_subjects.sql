-- Whose account at the sign-in provider made a key or connected an agent: an address may be given to somebody else.

-- subject: of the session in which it was made. Null: unknown, or of a command.
ALTER TABLE api_keys ADD COLUMN subject text;
ALTER TABLE agents ADD COLUMN subject text;

UPDATE api_keys AS k SET subject = (
    SELECT s.subject FROM sessions AS s
    WHERE s.email = k.email AND s.provider = k.provider AND s.created_at <= k.created_at
    ORDER BY s.created_at DESC
    LIMIT 1
) WHERE k.provider IS NOT NULL;
UPDATE agents AS a SET subject = (
    SELECT s.subject FROM sessions AS s
    WHERE s.email = a.email AND s.provider = a.provider AND s.created_at <= a.created_at
    ORDER BY s.created_at DESC
    LIMIT 1
);
