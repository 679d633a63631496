-- Purpose: resume a paused source whose credentials were renewed. Parameters: source. Grain: source. Index: primary key.
UPDATE source_states SET paused_at = NULL, paused_reason = NULL, tried_at = NULL
WHERE source = %(source)s
