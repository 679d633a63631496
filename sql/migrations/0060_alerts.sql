-- Conditions that a rule of `resources.alerts.rules` has found true. Grain: rule and subject (a source, a dependency, or nothing).
-- since: when it became true. seen_at: when a process last found it true. hold_seconds: how long it must stay true before it fires.
-- fired_at: null while it has not. noticed_at: the latest notice. resolved_at: when it ended after firing. Bound: rules times sources.
CREATE TABLE alerts (
    rule text NOT NULL,
    subject text NOT NULL,
    severity text NOT NULL,
    value double precision NOT NULL,
    hold_seconds double precision NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    fired_at timestamptz,
    noticed_at timestamptz,
    resolved_at timestamptz,
    PRIMARY KEY (rule, subject)
);

-- Notices that the webhook has not accepted yet, the oldest first. Grain: notice. next_at: when it may be sent (again). Bound: the
-- latest thousand, and `MOST_ATTEMPTS` of each.
CREATE TABLE alert_notices (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    text text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    next_at timestamptz NOT NULL DEFAULT now()
);
