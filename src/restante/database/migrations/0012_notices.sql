-- Messages of commits to the other nodes that share the database, kept for a minute for nodes that have missed them.
-- They may be lost in a crash: a node that loses its connection to the database reads everything again.

CREATE /* UNLOGGED */ TABLE notices (
    -- The id of the transaction that stored it: at most one message per transaction.
    commit_id INTEGER NOT NULL,
    node      TEXT NOT NULL,
    kept_at   INTEGER NOT NULL,
    message   TEXT NOT NULL,
    PRIMARY KEY (commit_id)
);
