-- People are suggested by the beginning of their address or name while somebody types whom to share with.
CREATE INDEX people_email_beginning ON people (email COLLATE "C");
CREATE INDEX people_name_beginning ON people (lower(name) COLLATE "C");
CREATE INDEX sessions_email_beginning ON sessions (email COLLATE "C");
