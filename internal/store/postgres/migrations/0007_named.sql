-- cost: pending: locks pending briefly
-- cost: lane: locks lane briefly
-- cost: known: locks known briefly
-- No row may name kind 0 or target 0, because no query would find it. Earlier programs could write such rows. Those stay, and
-- `grapnel migrate status` counts them, so a table that has rows gets its check without a look at them (NOT VALID).
ALTER TABLE pending ADD CONSTRAINT named CHECK (kind > 0 AND target > 0) NOT VALID;
ALTER TABLE lane    ADD CONSTRAINT named CHECK (target > 0) NOT VALID;
ALTER TABLE known   ADD CONSTRAINT named CHECK (kind > 0) NOT VALID;

-- Each day's tables get a check of their own, and later days from the program that makes their tables. The whole tables get none:
-- settleFirst detaches the first tables and attaches them again, which PostgreSQL refuses if the whole has a check that is not valid for them.
DO $$
DECLARE
    name text;
    free boolean;
BEGIN
    FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'event'::regclass LOOP
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT named CHECK (kind > 0) NOT VALID', name);
    END LOOP;
    FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'finished'::regclass LOOP
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT named CHECK (kind > 0 AND target > 0) NOT VALID', name);
    END LOOP;
    FOR name IN SELECT conrelid::regclass FROM pg_constraint WHERE conname = 'named' AND connamespace = current_schema()::regnamespace LOOP
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s)', name) INTO free;
        IF free THEN
            EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT named', name);
        END IF;
    END LOOP;
END $$;
