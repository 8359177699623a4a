-- Bulk jobs: one action on every row that matches a filter, and the result of each row. All times are milliseconds
-- since the epoch.

CREATE TABLE jobs (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id          TEXT NOT NULL UNIQUE,
    area            TEXT NOT NULL CHECK (area IN ('updates', 'commands', 'events')),
    target          TEXT NOT NULL,
    action          TEXT NOT NULL,
    filter          TEXT NOT NULL,
    params          TEXT NOT NULL,
    -- Secret values of the parameters, under the master key.
    sealed_params   BLOB,
    -- Who created it: the name in audit records, and the person or key whose grants count while it runs.
    created_by      TEXT NOT NULL,
    identities      TEXT NOT NULL,
    person_id       INTEGER,
    key_id          INTEGER,
    role            TEXT NOT NULL,
    -- The users, sites or clients that it is limited to, as a JSON list; NULL: all of the area.
    scope           TEXT,
    created_at      INTEGER NOT NULL,
    started_at      INTEGER,
    finished_at     INTEGER,
    state           TEXT NOT NULL CHECK (state = 'queued' OR state = 'running' OR state = 'paused' OR state = 'done'
                                         OR state = 'aborted' OR state = 'failed' OR state = 'pending_approval'),
    reason          TEXT,
    approved_by     TEXT,
    rate_per_second INTEGER,
    -- How many rows matched when it was created.
    total           INTEGER NOT NULL,
    -- It covers ids up to through_id, and has done those up to after_id.
    after_id        INTEGER NOT NULL DEFAULT 0,
    through_id      INTEGER NOT NULL,
    -- The wave of a rollout ends after so many items.
    items_max       INTEGER,
    rollout         INTEGER,
    wave            INTEGER,
    done            INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    skipped         INTEGER NOT NULL DEFAULT 0,
    -- The next batch is not before this time.
    run_at          INTEGER NOT NULL,
    -- The node that runs it now. Another one takes over when the lease has ended.
    lease_owner     TEXT,
    lease_until     INTEGER
);
CREATE INDEX ix_jobs_open ON jobs (run_at) WHERE state = 'queued' OR state = 'running';
CREATE INDEX ix_jobs_area ON jobs (area, id);
CREATE INDEX ix_jobs_rollout ON jobs (rollout, wave) WHERE rollout IS NOT NULL;
CREATE INDEX ix_jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

-- One row for each item of a job, written in the transaction of its effect.
CREATE TABLE job_items (
    job    INTEGER NOT NULL REFERENCES jobs (id),
    item   INTEGER NOT NULL,
    state  TEXT NOT NULL CHECK (state = 'done' OR state = 'failed' OR state = 'skipped'),
    -- The public name of the item, and of what the action made: a command id, a jti, a config version.
    ref    TEXT,
    result TEXT,
    error  TEXT,
    at     INTEGER NOT NULL,
    PRIMARY KEY (job, item)
) WITHOUT ROWID;
CREATE INDEX ix_job_items_not_done ON job_items (job, state, item) WHERE state <> 'done';

-- Rows about the items of a job are many and expire; all other rows are kept forever.
ALTER TABLE access_audit ADD COLUMN job INTEGER;
CREATE INDEX ix_access_audit_job ON access_audit (at) WHERE job IS NOT NULL;
