-- How often a collector sent the same report on a command: an ACK that was refused with an error, `running` of a command
-- that runs already, a lease extension. command_id is empty for all commands that do not exist at the collector's site.
-- The audit trail has a row for the 1st, 2nd, 4th, 8th … time.
CREATE TABLE repeated_reports (
    device_id  INTEGER NOT NULL,
    command_id TEXT NOT NULL,
    kind       TEXT NOT NULL,
    count      INTEGER NOT NULL,
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (device_id, command_id, kind)
) WITHOUT ROWID;
CREATE INDEX ix_repeated_reports_command ON repeated_reports (command_id, device_id, kind);
