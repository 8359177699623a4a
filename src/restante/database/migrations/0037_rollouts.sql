-- Staged rollouts: a bulk action in waves. Each wave is a job (jobs.rollout, jobs.wave). All times are milliseconds
-- since the epoch.

CREATE TABLE rollouts (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    rollout_id         TEXT NOT NULL UNIQUE,
    name               TEXT NOT NULL,
    area               TEXT NOT NULL CHECK (area IN ('updates', 'commands', 'events')),
    target             TEXT NOT NULL,
    action             TEXT NOT NULL,
    filter             TEXT NOT NULL,
    params             TEXT NOT NULL,
    sealed_params      BLOB,
    created_by         TEXT NOT NULL,
    identities         TEXT NOT NULL,
    person_id          INTEGER,
    key_id             INTEGER,
    role               TEXT NOT NULL,
    scope              TEXT,
    created_at         INTEGER NOT NULL,
    finished_at        INTEGER,
    state              TEXT NOT NULL CHECK (state IN ('pending_approval', 'running', 'paused', 'done', 'aborted',
                                                      'rolling_back', 'rolled_back')),
    reason             TEXT,
    approved_by        TEXT,
    rate_per_second    INTEGER,
    -- How many rows matched when it was created: percentages are of this number.
    total              INTEGER NOT NULL,
    waves              TEXT NOT NULL,
    -- The current wave, counted from 1, and since when it runs; 0 before the first.
    wave               INTEGER NOT NULL DEFAULT 0,
    wave_started_at    INTEGER,
    success_percent    INTEGER NOT NULL,
    error_percent      INTEGER NOT NULL,
    min_wave_seconds   INTEGER NOT NULL,
    max_wave_seconds   INTEGER NOT NULL,
    is_boosting        INTEGER NOT NULL,
    accepted_failures  INTEGER NOT NULL DEFAULT 0,
    -- The job that rolls it back.
    roll_back_job      INTEGER,
    -- When a node looks at it next.
    check_at           INTEGER NOT NULL
);
CREATE INDEX ix_rollouts_open ON rollouts (check_at) WHERE state = 'running' OR state = 'rolling_back';
CREATE INDEX ix_rollouts_finished ON rollouts (finished_at) WHERE finished_at IS NOT NULL;
-- An item is in one wave of a rollout only.
CREATE INDEX ix_job_items_item ON job_items (item, job);
