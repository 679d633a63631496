-- Purpose: cache a search's candidates. Parameters: cache_key, candidates, index_version, seconds. Grain: cache key.
INSERT INTO search_cache (cache_key, candidates, index_version, expires_at)
VALUES (%(cache_key)s, %(candidates)s, %(index_version)s, now() + make_interval(secs => %(seconds)s))
ON CONFLICT (cache_key) DO UPDATE
    SET
        candidates = excluded.candidates,
        index_version = excluded.index_version,
        created_at = now(),
        expires_at = excluded.expires_at
