-- Purpose: the confirmed email of a Slack account; no row if the directory does not know it or was read before `fresh_since`.
-- Parameters: account, fresh_since. Grain: account. Indexes: primary keys.
SELECT a.email
FROM source_accounts AS a
INNER JOIN source_states AS s ON a.source = s.source
WHERE a.source = 'slack' AND a.account = %(account)s AND s.directory_at >= %(fresh_since)s
