-- The active rollout: at most one row.

CREATE TABLE rollout (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    until_at         INTEGER NOT NULL,
    interval_seconds INTEGER NOT NULL
);
