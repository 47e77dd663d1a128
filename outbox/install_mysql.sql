-- Grapnel's outbox in a database of MySQL 8.0.29 or newer, or MariaDB 10.6 or newer, version 1. One procedure for producers:
--
--   CALL grapnel_publish('invoice.paid', '{"amount":100}', 'inv_1', NULL, NULL, NULL);
--
-- The event is part of the transaction that calls it. It may be run again at any time: what is there stays.
--
-- How order comes about. An id is drawn when its row is written, so by itself it says the order of calls and not that of commits. The
-- procedure therefore locks the place of the key before the id is drawn. InnoDB ends the lock after the transaction can be seen, or is
-- rolled back. So of two transactions with a key in common the second one draws its id when the first one can be seen: ids are in commit
-- order for each key, and whoever sees an id sees all lower ones of the same key. Ids of different keys may appear in any order, so the
-- relay remembers none: whatever row there is has to be published, and is removed then.
--
-- Nothing here can run at the commit, so unlike PostgreSQL's the lock begins at the call. A key's place is one of 1024. Their rows never
-- change: a locking read of them fails at no isolation level, also where a changed row would (innodb_snapshot_isolation). With
-- autocommit the lock ends before the row is written; an event of its own has no order to its neighbours. XA PREPARE of MariaDB ends it
-- too. Several servers that take writes at once, as with Galera, do not see each other's locks.
DELIMITER //

SET SESSION sql_mode = 'STRICT_ALL_TABLES' -- the procedure keeps it: nothing is cut to fit
//

CREATE TABLE IF NOT EXISTS grapnel_outbox_installation (
  single       tinyint     NOT NULL DEFAULT 1 PRIMARY KEY,
  version      int         NOT NULL,
  installed_at datetime(6) NOT NULL -- UTC
) ENGINE = InnoDB
//

CREATE TABLE IF NOT EXISTS grapnel_outbox_place (
  place smallint unsigned NOT NULL PRIMARY KEY
) ENGINE = InnoDB
//

INSERT IGNORE INTO grapnel_outbox_place (place)
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 31) SELECT a.i * 32 + b.i FROM n AS a CROSS JOIN n AS b
//

CREATE TABLE IF NOT EXISTS grapnel_outbox (
  id           bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  type         varchar(128) NOT NULL,
  `key`        varchar(256),
  event_id     varchar(64)  NOT NULL,
  data         longtext     NOT NULL, -- its bytes are delivered as they are given here
  size         bigint       GENERATED ALWAYS AS (octet_length(data)) STORED,
  metadata     mediumtext,            -- a JSON object of strings
  occurred_at  datetime(6)  NOT NULL, -- UTC, as is the next one
  published_at datetime(6)  NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
//

CREATE PROCEDURE IF NOT EXISTS grapnel_publish(
  given_type        varchar(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  given_data        longtext      CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- JSON
  given_key         varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- events of one key arrive in the order of their commits
  given_id          varchar(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- the event's own; NULL: a new one
  given_metadata    mediumtext    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- a JSON object of strings
  given_occurred_at datetime(6)                                              -- UTC; NULL: now
)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
BEGIN
  DECLARE its_place smallint unsigned;
  DECLARE before_it bigint unsigned DEFAULT last_insert_id();
  IF given_type IS NULL OR octet_length(given_type) > 128 OR given_type REGEXP '[^A-Za-z0-9_.-]'
     OR NOT given_type REGEXP '^[A-Za-z0-9_-]{1,64}([.][A-Za-z0-9_-]{1,64})*$' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
      'grapnel_publish: the type is not segments of 1 to 64 of [A-Za-z0-9_-] joined by dots, at most 128 bytes in all';
  ELSEIF given_key = '' OR octet_length(given_key) > 256 OR given_key REGEXP '[\\x00-\\x1f\\x7f]' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'grapnel_publish: the key is not 1 to 256 bytes of text without control characters';
  ELSEIF given_id = '' OR char_length(given_id) > 64 OR given_id REGEXP '[^A-Za-z0-9_-]' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'grapnel_publish: the id is not 1 to 64 characters of [A-Za-z0-9_-]';
  ELSEIF given_data IS NULL OR NOT json_valid(given_data) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'grapnel_publish: data is not JSON';
  ELSEIF given_metadata IS NOT NULL AND
     (NOT json_valid(given_metadata) OR json_type(given_metadata) <> 'OBJECT' OR json_length(given_metadata) > 32) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'grapnel_publish: metadata is not a JSON object of at most 32 strings';
  END IF;
  IF given_key IS NOT NULL THEN
    SELECT place INTO its_place FROM grapnel_outbox_place WHERE place = crc32(given_key) & 1023 FOR UPDATE;
    IF its_place IS NULL THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'grapnel_publish: grapnel_outbox_place lacks rows; install the outbox again';
    END IF;
  END IF;
  INSERT INTO grapnel_outbox (type, `key`, event_id, data, metadata, occurred_at, published_at) VALUES (
    given_type, given_key,
    coalesce(given_id, concat('evt_', lpad(lower(hex(floor(unix_timestamp(now(3)) * 1000))), 12, '0'), '7', left(md5(concat(uuid(), rand())), 19))),
    given_data, given_metadata, coalesce(given_occurred_at, utc_timestamp(6)), utc_timestamp(6));
  DO last_insert_id(before_it); -- what the caller asks for is the id of its own row
END
//

INSERT IGNORE INTO grapnel_outbox_installation (version, installed_at) VALUES (1, utc_timestamp(6))
//

DELIMITER ;
