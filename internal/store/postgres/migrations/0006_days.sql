-- creates: event_name
-- cost: event: locks event briefly to make it a part of a new table of that name
-- cost: finished: locks finished briefly to make it a part of a new table of that name
-- cost: attempt: locks attempt briefly to make it a part of a new table of that name
-- Events, finished deliveries and attempts are in tables of a day each, which go as a whole: what there is becomes the first of them. A number says its
-- day: day D (since 1970, UTC) has those from D * 2^36 on, and those from before this step are lower than 2^36.
--
-- Nothing is read here. That the numbers are as low as that is found out later, beside everything else; until then the first tables take all that has no other.
ALTER TABLE event    ADD CONSTRAINT event_first_numbers    CHECK (seq < 68719476736)      NOT VALID;
ALTER TABLE finished ADD CONSTRAINT finished_first_numbers CHECK (seq < 68719476736)      NOT VALID;
ALTER TABLE attempt  ADD CONSTRAINT attempt_first_numbers  CHECK (delivery < 68719476736) NOT VALID;

ALTER TABLE event    RENAME TO event_first;
ALTER TABLE finished RENAME TO finished_first;
ALTER TABLE attempt  RENAME TO attempt_first;
ALTER INDEX event_pkey           RENAME TO event_first_pkey;
ALTER INDEX event_id             RENAME TO event_first_id;
ALTER INDEX event_kind           RENAME TO event_first_kind;
ALTER INDEX event_key            RENAME TO event_first_key;
ALTER INDEX finished_pkey        RENAME TO finished_first_pkey;
ALTER INDEX finished_target      RENAME TO finished_first_target;
ALTER INDEX finished_undelivered RENAME TO finished_first_undelivered;
ALTER INDEX attempt_pkey         RENAME TO attempt_first_pkey;

CREATE TABLE event    (LIKE event_first    INCLUDING STORAGE) PARTITION BY RANGE (seq);
CREATE TABLE finished (LIKE finished_first INCLUDING STORAGE) PARTITION BY RANGE (seq);
CREATE TABLE attempt  (LIKE attempt_first  INCLUDING STORAGE) PARTITION BY RANGE (delivery);
ALTER TABLE event    ADD PRIMARY KEY (seq);
ALTER TABLE finished ADD PRIMARY KEY (seq);
ALTER TABLE attempt  ADD PRIMARY KEY (delivery, number);
CREATE INDEX event_kind ON event (kind, seq);
CREATE INDEX event_key  ON event (key, seq) WHERE key <> '';
CREATE INDEX finished_target      ON finished (target, seq);
CREATE INDEX finished_undelivered ON finished (target, status, seq) WHERE status <> 'delivered';
ALTER TABLE event    ATTACH PARTITION event_first    DEFAULT;
ALTER TABLE finished ATTACH PARTITION finished_first DEFAULT;
ALTER TABLE attempt  ATTACH PARTITION attempt_first  DEFAULT;

-- An id is unique in its day's table. One that begins with the time of its day, or of the day before, can be in no other; all others are
-- here as well, and so unique among each other. A trigger of each day's table sees to that, whoever writes. What is here without its event is of a day
-- that is gone.
CREATE TABLE event_name (id text COLLATE "C" PRIMARY KEY, seq bigint NOT NULL);
CREATE INDEX event_name_seq ON event_name (seq);
CREATE FUNCTION name_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_name (id, seq) VALUES (NEW.id, NEW.seq);
    RETURN NULL;
END $$;
