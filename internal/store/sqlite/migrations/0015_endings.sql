-- creates: ending
-- The last attempts of deliveries that ended long after later ones were accepted, in the order in
-- which they ended. The delivery's row of finished has the number in the column last.
CREATE TABLE ending (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
