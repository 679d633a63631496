-- Answers that their owner has shared by link. One that was written in a conversation may rest on earlier messages, whose sources nobody
-- checks again, so it is not shareable; older rows do not tell. Grain: answer.
ALTER TABLE answers
ADD COLUMN shareable boolean NOT NULL DEFAULT FALSE,
ADD COLUMN shared_at timestamptz;
CREATE INDEX answers_shared ON answers (email) WHERE shared_at IS NOT NULL;
