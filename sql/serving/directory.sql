-- Purpose: a user's principals from sources, in addition to the token; sources that were not queried recently are ignored.
-- Parameters: email, fresh_since. Grain: (source, principal). Index: directory_email, primary key of source_states.
SELECT d.principal
FROM directory AS d
INNER JOIN source_states AS s ON d.source = s.source
WHERE
    d.email = %(email)s
    AND s.directory_at >= %(fresh_since)s
