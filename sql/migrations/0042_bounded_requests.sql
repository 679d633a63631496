-- Tables that requests append to are bounded by person and time; tests/integration/test_bounded_tables.py names the bound of each.

-- One opinion of a person on an answer or a search: the latest one counts.
DELETE FROM feedback AS f
USING feedback AS g
WHERE
    f.email = g.email
    AND coalesce(f.answer_id, f.query_id) = coalesce(g.answer_id, g.query_id)
    AND (f.created_at, f.feedback_id) < (g.created_at, g.feedback_id);
CREATE UNIQUE INDEX feedback_of_answer ON feedback (email, (coalesce(answer_id, query_id)));

-- What an agent asks for is in the address of the consent page, signed. A row says that a person has decided on it. Grain: decision.
DELETE FROM agent_requests;
ALTER TABLE agent_requests DROP COLUMN request;

-- A row of `sign_ins` says that a provider's answer was used, or that a link or the connection of an account was begun.

-- Questions of a widget's visitors today (UTC). Grain: widget.
CREATE TABLE widget_days (
    widget text PRIMARY KEY,
    day date NOT NULL,
    questions integer NOT NULL
);

-- Questions of visitors within the last minute, by a digest of their address that needs our key to make. Grain: address.
CREATE TABLE widget_visitors (
    visitor bytea PRIMARY KEY,
    questions timestamptz [] NOT NULL,
    latest timestamptz NOT NULL
);
CREATE INDEX widget_visitors_latest ON widget_visitors (latest);
