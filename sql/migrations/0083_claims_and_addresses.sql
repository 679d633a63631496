-- A statement that is sent again, because its connection was lost, recognises that it was committed before.

-- claim: random, of the request that used the sign-in. Null: not used.
ALTER TABLE sign_ins ADD COLUMN claim uuid;
-- claim: random, of the request with which the person decided.
ALTER TABLE agent_requests ADD COLUMN claim uuid;

-- Keys and tokens were made for addresses as they were typed, and off-boarding looks for their one spelling.
UPDATE api_keys SET email = normalize(email) WHERE email IS NOT NORMALIZED;
UPDATE answers SET email = normalize(email) WHERE email IS NOT NORMALIZED;
