-- Sessions that have the role administrator by themselves, whatever CONCORDANCE_ROLES says.
ALTER TABLE sessions ADD COLUMN administrator boolean NOT NULL DEFAULT FALSE;
