-- Notifies the server when rows are committed to the outbox, so that it does not wait for its next poll: it listens
-- on this channel. A transaction that notifies locks the whole database server while it commits, so such transactions
-- commit one after another. If many commit at once, leave this out, or send NOTIFY device_update_outbox after the
-- commit.
CREATE FUNCTION device_update_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('device_update_outbox', ''); RETURN NULL; END $$;
CREATE TRIGGER device_update_outbox_notify AFTER INSERT ON device_update_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION device_update_outbox_notify();
