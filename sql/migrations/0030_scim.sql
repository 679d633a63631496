-- What a SCIM client (an identity provider) has provisioned. People are also in `people`, and members' groups in `directory`, with the
-- source `scim`, where requests look them up; both are derived from these tables in the transaction of each change.

-- Users. emails: the addresses that sign in as this person, lower-cased; no two users share one. resource: the SCIM attributes.
-- Grain: user.
CREATE TABLE scim_users (
    user_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_name text NOT NULL,
    external_id text,
    emails text [] NOT NULL DEFAULT '{}',
    active boolean NOT NULL,
    resource jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    modified_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX scim_users_name ON scim_users (lower(user_name));
CREATE INDEX scim_users_external ON scim_users (external_id);
CREATE INDEX scim_users_emails ON scim_users USING gin (emails);
CREATE INDEX scim_users_created ON scim_users (created_at, user_id);

-- Groups. principal: the one that documents are shared with, group:NAME@DOMAIN. Grain: group.
CREATE TABLE scim_groups (
    group_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    display_name text NOT NULL,
    external_id text,
    principal text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    modified_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX scim_groups_name ON scim_groups (lower(display_name));
CREATE INDEX scim_groups_external ON scim_groups (external_id);

-- Direct members of groups: users, and groups within groups. Grain: (group, member).
CREATE TABLE scim_members (
    group_id uuid NOT NULL REFERENCES scim_groups (group_id) ON DELETE CASCADE,
    user_id uuid REFERENCES scim_users (user_id) ON DELETE CASCADE,
    subgroup_id uuid REFERENCES scim_groups (group_id) ON DELETE CASCADE,
    CHECK (num_nonnulls(user_id, subgroup_id) = 1),
    UNIQUE (group_id, user_id),
    UNIQUE (group_id, subgroup_id)
);
CREATE INDEX scim_members_user ON scim_members (user_id);
CREATE INDEX scim_members_subgroup ON scim_members (subgroup_id);

-- A key of this kind authenticates a SCIM client and opens nothing else.
ALTER TABLE api_keys ADD COLUMN scim boolean NOT NULL DEFAULT FALSE;
CREATE INDEX api_keys_email ON api_keys (email);

-- The audit log is read newest first, also by person and by action.
DROP INDEX audit_log_at;
CREATE INDEX audit_log_at ON audit_log (at, event_id);
CREATE INDEX audit_log_email ON audit_log (email, at DESC, event_id DESC);
CREATE INDEX audit_log_action ON audit_log (action, at DESC, event_id DESC);
