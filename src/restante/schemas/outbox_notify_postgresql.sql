-- Have the server told when something is committed to the outbox, so that it need not look: it hears this channel.
-- A transaction that notifies takes a lock of the whole database server while it commits: those that do commit one after
-- the other. Where many commit at once, leave this out, or send NOTIFY device_update_outbox after the commit instead.
CREATE FUNCTION device_update_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('device_update_outbox', ''); RETURN NULL; END $$;
CREATE TRIGGER device_update_outbox_notify AFTER INSERT ON device_update_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION device_update_outbox_notify();
