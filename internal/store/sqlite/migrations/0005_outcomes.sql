-- creates: delivered_outcome target_outcome
-- cost: pending heavy: rewrites rows of pending
-- cost: finished heavy: reads all of finished; nobody can write to it meanwhile
-- cost: tally heavy: reads all of tally
-- What became of a delivery, as one number: the status code and the class of its last attempt, and the reason code (outcome.go). Of what
-- is here already it is not known (-1): finding it out means to decode every attempt that there is, which would keep the server from
-- starting for minutes. A list looks at those rows one by one, and they are gone when they have been kept long enough.
ALTER TABLE finished ADD COLUMN outcome INTEGER NOT NULL DEFAULT -1;
ALTER TABLE pending  ADD COLUMN outcome INTEGER NOT NULL DEFAULT 0;
UPDATE pending SET outcome = -1 WHERE attempts > 0;

-- The outcomes of what was not delivered stand beside each other. What was delivered pays with some bytes in an entry that it has anyway,
-- and with a row for each block and outcome that occurs in it, and one for
-- each target and outcome that ever occurred there: few.
CREATE INDEX finished_outcome ON finished (target, status, outcome) WHERE status <> 3;
DROP INDEX finished_target;
CREATE INDEX finished_target ON finished (seq >> 12, target, outcome);
CREATE TABLE delivered_outcome (outcome INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (outcome, block)) WITHOUT ROWID;
INSERT INTO delivered_outcome SELECT DISTINCT -1, seq >> 12 FROM finished;
CREATE TABLE target_outcome (outcome INTEGER NOT NULL, target INTEGER NOT NULL, PRIMARY KEY (outcome, target)) WITHOUT ROWID;
INSERT INTO target_outcome SELECT DISTINCT -1, target FROM tally;
