-- The authors and Slack channels of a question are looked up among the documents that the caller may read, one name after another.
CREATE INDEX documents_author ON documents (author) WHERE state = 'live';
CREATE INDEX documents_channel ON documents ((tags ->> 'channel')) WHERE state = 'live' AND source = 'slack';
