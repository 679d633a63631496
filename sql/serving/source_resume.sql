-- Purpose: end the pause of a source whose credentials were mended. Parameters: source. Grain: source. Index: primary key.
UPDATE source_states SET paused_at = NULL, paused_reason = NULL, tried_at = NULL
WHERE source = %(source)s
