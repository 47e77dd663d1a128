-- cost: event heavy: reads all of event; nobody can write to it meanwhile
-- Event ids are unique in a tenant. Until now they were unique among all tenants. The one writer
-- looks for the tenant's id before it adds an event (append.go), so the index need not know tenants.
-- A kind is of one tenant; of a kind the index admits no id twice.
DROP INDEX event_id;
CREATE UNIQUE INDEX event_id ON event (id, kind);
