-- Questions that people ask the app in Slack, from their arrival to their reply. Grain: message.
CREATE TABLE slack_questions (
    channel text NOT NULL,
    ts text NOT NULL,
    event_id text NOT NULL UNIQUE,
    team text NOT NULL,
    account text NOT NULL,
    -- The first message of the thread, which is the question itself if it began the thread.
    thread text NOT NULL,
    -- Asked in a direct message to the app.
    direct boolean NOT NULL,
    -- Null once it is closed.
    question text,
    received_at timestamptz NOT NULL DEFAULT now(),
    -- Until then, a process is answering it.
    leased_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    -- The message of the app that holds the reply, or says that one is coming.
    reply_ts text,
    answer_id uuid,
    -- How it was closed; null while it is open.
    outcome text,
    -- What the person who asked said of the answer; `rated_at` null: not stored as feedback yet.
    verdict text CHECK (verdict IN ('good', 'bad')),
    rated_at timestamptz,
    PRIMARY KEY (channel, ts)
);
CREATE INDEX slack_questions_open ON slack_questions (received_at) WHERE outcome IS NULL;
CREATE INDEX slack_questions_unrated ON slack_questions (received_at) WHERE verdict IS NOT NULL AND rated_at IS NULL;
CREATE INDEX slack_questions_thread ON slack_questions (channel, thread, ts);
CREATE INDEX slack_questions_reply ON slack_questions (channel, reply_ts);
CREATE INDEX slack_questions_received ON slack_questions (received_at);
