-- Purpose: those of these Slack accounts that are full members of a workspace; none if the directory was read before `fresh_since`.
-- Parameters: accounts, principal (`slack:TEAM`), fresh_since. Grain: account. Indexes: primary keys, directory_email.
SELECT a.account
FROM source_accounts AS a
INNER JOIN source_states AS s ON a.source = s.source
WHERE
    a.source = 'slack' AND a.account = ANY(%(accounts)s) AND s.directory_at >= %(fresh_since)s
    AND EXISTS (SELECT 1 FROM directory AS d WHERE d.source = 'slack' AND d.email = a.email AND d.principal = %(principal)s)
