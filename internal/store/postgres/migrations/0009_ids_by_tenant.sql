-- creates: event_named
-- cost: event: locks event briefly
-- Event ids are unique in a tenant. Until now they were unique among all tenants.
--
-- No row is read or rewritten. Days that have events keep their index of ids alone. The program that
-- takes this step makes the next day's tables with an index of ids and tenants, and lets numbers go on
-- there at once (calendar.due). A day may begin early, because its table may have ids that tell the day
-- before (mayHave).

-- The tenant of the kind; '' in rows from before this step, which are found by their kind.
ALTER TABLE event ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';

-- Takes the place of event_name, which stays for the events that it names until they are deleted.
CREATE TABLE event_named (id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, seq bigint NOT NULL, PRIMARY KEY (id, tenant));
CREATE INDEX event_named_seq ON event_named (seq);
CREATE OR REPLACE FUNCTION name_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_named (id, tenant, seq)
        VALUES (NEW.id, coalesce(nullif(NEW.tenant, ''), (SELECT tenant FROM kind WHERE number = NEW.kind), ''), NEW.seq);
    RETURN NULL;
END $$;

-- Earlier programs that still run name no tenant.
CREATE FUNCTION tenant_of_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant := coalesce((SELECT tenant FROM kind WHERE number = NEW.kind), '');
    RETURN NEW;
END $$;

-- Lets ids be unique by tenant in one day's table. It reads all of that table, to which nobody can
-- write meanwhile.
CREATE FUNCTION event_ids_by_tenant(day text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE UNIQUE INDEX %1$s_whose ON %1$s (id, tenant)', day);
    EXECUTE format('CREATE TRIGGER whose BEFORE INSERT ON %s FOR EACH ROW WHEN (NEW.tenant = '''')
        EXECUTE FUNCTION tenant_of_event()', day);
    EXECUTE format('DROP INDEX IF EXISTS %s_id', day);
END $$;
