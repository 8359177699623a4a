-- Approval by a second person: the policy, and who made each command and each rule.

-- One row. Without it, the settings of the process count; the first server that has such settings stores them here.
CREATE TABLE approval_policy (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    command_types  TEXT NOT NULL,
    miners_from    INTEGER,
    window_seconds INTEGER NOT NULL,
    changed_at     INTEGER NOT NULL,
    changed_by     TEXT NOT NULL
);

-- Each identity that made a command. None of them approves it, and their commands of a window count together.
CREATE TABLE command_makers (
    command_id   TEXT NOT NULL,
    maker        TEXT NOT NULL,
    command_type TEXT NOT NULL,
    miner_id     INTEGER,
    miner_count  INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    PRIMARY KEY (command_id, maker)
);
CREATE INDEX ix_command_makers_maker ON command_makers (maker, command_type, at);
CREATE INDEX ix_command_makers_at ON command_makers (at);

-- Each identity that made or changed a rule: they are makers of its commands.
CREATE TABLE rule_makers (
    rule_id INTEGER NOT NULL REFERENCES automation_rules (id) ON DELETE CASCADE,
    maker   TEXT NOT NULL,
    PRIMARY KEY (rule_id, maker)
);
INSERT INTO rule_makers (rule_id, maker) SELECT id, created_by FROM automation_rules;
