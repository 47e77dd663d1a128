-- creates: peer
-- What nodes show each other to be believed. Two random identifiers have 244 bits that nobody can guess.
CREATE TABLE peer (secret text NOT NULL);
INSERT INTO peer (secret) VALUES (gen_random_uuid()::text || gen_random_uuid()::text);
