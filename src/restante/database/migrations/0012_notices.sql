-- What a commit tells the other nodes, kept for the minute in which one of them may have missed it. Of use where several
-- nodes share a database. Nothing is lost with it: whoever loses the connection to the database reads everything again.

CREATE /* UNLOGGED */ TABLE notices (
    -- The transaction that kept it: there is one for each.
    commit_id INTEGER NOT NULL,
    node      TEXT NOT NULL,
    kept_at   INTEGER NOT NULL,
    message   TEXT NOT NULL,
    PRIMARY KEY (commit_id)
);
