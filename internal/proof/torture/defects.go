package torture

// defect is a mistake that receivers make, with the name of its remedy.
type defect struct{ text, remedy string }

// defects name the mistake behind a violation: by case and invariant, else by the invariant alone.
// "answer" rows are for answers with a wrong status, the others for effects. The last rows end with
// the label of an event, whose second effect shows a mistake of its own.
var defects = map[string]defect{
	I1:             {"an event was accepted and is lost: the answer came before its effect was durable", "commit-first"},
	I2:             {"an event has several effects: nothing remembers that it was handled", "claim"},
	I3:             {"a request that must be refused has an effect or is accepted", "verify"},
	I4:             {"an event is lost although its sender retried: it counts as handled without its effect", "same-transaction"},
	I4 + " answer": {"the status makes the sender give up, or retry in vain", "answers"},
	I5:             {"an older event overwrites the state of a newer one", "version-gate"},
	I6:             {"the sender gets no answer in time, and sends the event again", "limits"},

	"T01 I2":        {"no deduplication: each copy of an event has its effect", "claim"},
	"T01 I4 answer": {"a duplicate is an error, so its sender retries an event that is done", "duplicate-is-success"},
	"T02 I2":        {"check, then act: copies that arrive together all pass the check", "claim"},
	"T03 I1":        {"a copy is answered 2xx while the first one still runs; the first one fails and the event is lost", "lease"},
	"T03 I4":        {"a copy is answered 2xx while the first one still runs; the first one fails and the event is lost", "lease"},
	"T03 I6":        {"a copy waits for the first one longer than the sender does, so the sender repeats it again and again", "lease"},
	"T03 I2":        {"a copy runs beside the first one: the claim does not cover the time of the work", "lease"},
	"T04 I1":        {"the event is recorded or answered before its work, so a crash between them loses it", "same-transaction"},
	"T04 I4":        {"the event is recorded as handled before its work, or its claim outlives a crash: retries do nothing", "lease"},
	"T04 I2":        {"the effect and its record are two commits: a crash between them repeats the effect", "same-transaction"},
	"T05 I1":        {"the answer comes before the work, which is only in memory: a crash loses it", "commit-first"},
	"T05 I2":        {"the effect and its record are two commits: a crash between them repeats the effect", "same-transaction"},
	"T06 I4 answer": {"a late event is an error, so its sender repeats it for days", "answers"},
	"T06 I1":        {"the newest event counts as stale", "version-gate"},
	"T07 I1":        {"an UPDATE of a row that does not exist changes nothing, and counts as stale: the event is lost", "version-gate"},
	"T07 I5":        {"an UPDATE of a row that does not exist changes nothing, and the older event then creates it", "version-gate"},
	"T08 I5":        {"the order of states is a list of ranks, or is checked before the write: a late status wins", "state-machine"},
	"T09 I1":        {"timestamps are compared with > alone: the second event of an instant is lost", "timestamp-gate"},
	"T09 I5":        {"timestamps are compared without the event's id, or not at all: the state is not that of the last event", "timestamp-gate"},
	"T10 I1":        {"the hash of the payload leaves nested members out: different events count as duplicates", "key-by-id"},
	"T11 I1":        {"events are recognised by their payload: two events with the same content count as one", "key-by-id"},
	"T12 I1":        {"numbers are read as floating point: two events that differ in the last digit count as one", "numbers"},
	"T12 I5":        {"numbers are read as floating point: digits beyond 2^53 are lost", "numbers"},
	"T13 I2":        {"an event under a known id has a second effect if its body differs", "claim"},
	"T13 I5":        {"another body under a known id overwrites the first one", "claim"},
	"T14 I3":        {"the signature does not cover the body, the id and the time, or is not checked", "verify"},
	"T15 I3":        {"the time of the signature has no limit: a recorded request can be replayed for ever", "tolerance"},
	"T16 I4 answer": {"only one signature is looked at: requests fail while the secret is rotated", "rotation"},
	"T16 I3":        {"a missing or foreign signature is accepted", "verify"},
	"T17 I1":        {"the id is recorded before the signature is checked: a forged request suppresses the genuine one", "verify-first"},
	"T17 I4":        {"the id is recorded before the signature is checked: a forged request suppresses the genuine one", "verify-first"},
	"T17 I5":        {"the state is that of a forged request", "verify"},
	"T18 I1":        {"ids of all sources share one table without the source: the same id of another source counts as a duplicate", "claim"},
	"T19 I6":        {"slow and idle clients use up all workers or connections", "limits"},
	"T20 I3":        {"a body has no limit: one request can use up the memory", "limits"},
	"T20 I6":        {"a large body stops the receiver", "limits"},
	"T20 I4 answer": {"a large body is an error of the server, so its sender repeats it", "limits"},
	"T21 I6":        {"a body that cannot be parsed crashes the handler before it answers", "parse"},
	"T21 I4 answer": {"a body that can never be parsed is answered 5xx, so its sender repeats it for days", "parse"},
	"T22 I4 answer": {"events of unknown types are refused, so their sender repeats them for days", "unknown-types"},
	"T22 I1":        {"unknown members of a payload lose the event", "unknown-types"},
	"T23 I6":        {"the work is done before the answer and the burst queues up: senders time out and repeat", "inbox"},
	"T23 I5":        {"events of one key overtake each other", "version-gate"},
	"T23 I2":        {"events of a burst have several effects: the claim does not hold under load", "claim"},
	"T24 I1":        {"a failure that passes is answered 2xx: the event is lost", "answers"},
	"T24 I4 answer": {"the status does not say whether a retry helps", "answers"},
	"T24 I3":        {"a handler that fails for good leaves an effect", "same-transaction"},
	"T25 I2":        {"ids are forgotten before the sender's last retry or replay", "window"},
	"T25 I4 answer": {"a replay after the window fails instead of being recognised", "window"},
	"T26 I3":        {"another method than POST has an effect", "methods"},
	"T26 I1":        {"a path that is not the receiver's answers 2xx: a wrong URL loses events silently", "methods"},

	"T03 I2 " + givesUp:     {"finished work is done again: an answer that fails releases its key, or nothing remembers it", "answer-outside"},
	"T03 I2 " + leasePasses: {"a worker whose lease has passed releases the claim of its successor, or there is no claim", "own-claim"},
}

// remedies say how to mend a defect in three lines, by language; "" is in words.
var remedies = map[string]map[string]string{
	"claim": {
		"": "In one transaction: INSERT (source, id) with ON CONFLICT DO NOTHING into a table with a primary key on both.\n" +
			"If no row was inserted it is a duplicate: answer 200 and do nothing.\nOtherwise do the work in the same transaction, commit, then answer.",
		"go": "res, err := tx.Exec(`INSERT INTO seen(source, id) VALUES($1, $2) ON CONFLICT DO NOTHING`, source, id)\n" +
			"if n, _ := res.RowsAffected(); err == nil && n == 0 { w.WriteHeader(200); return } // a duplicate\n" +
			"err = work(tx, event) // the same transaction; then tx.Commit(), then the answer",
		"typescript": "const { rowCount } = await tx.query(\"INSERT INTO seen(source, id) VALUES($1, $2) ON CONFLICT DO NOTHING\", [source, id]);\n" +
			"if (rowCount === 0) return reply.status(200).send(); // a duplicate\n" +
			"await work(tx, event); // the same transaction; then COMMIT, then the answer",
		"python": "cur.execute(\"INSERT INTO seen(source, id) VALUES(%s, %s) ON CONFLICT DO NOTHING\", (source, id))\n" +
			"if cur.rowcount == 0: return Response(status=200)  # a duplicate\n" +
			"work(cur, event)  # the same transaction; then commit, then the answer",
	},
	"same-transaction": {
		"": "Write the effect and the record that the event was handled in one transaction.\n" +
			"On an error roll both back and answer 503, so that the retry runs again.\nIf the effect is elsewhere, give that service an idempotency key made of the event's id.",
		"go": "tx, err := db.BeginTx(ctx, nil); defer tx.Rollback()\n" +
			"err = errors.Join(claim(tx, source, id), work(tx, event)) // record and effect together\n" +
			"if err == nil { err = tx.Commit() }; if err != nil { w.WriteHeader(503) }",
		"typescript": "await db.transaction(async (tx) => { // record and effect together; an exception rolls both back\n" +
			"  if (await claim(tx, source, id)) await work(tx, event);\n}); // answer after this line: 200, or 503 in catch",
		"python": "with connection.transaction():  # record and effect together; an exception rolls both back\n" +
			"    if claim(connection, source, id): work(connection, event)\nreturn Response(status=200)  # 503 if it raised",
	},
	"lease": {
		"": "A claim is busy until the work is done, has an owner and ends at lease_until; it becomes done in the transaction of the work.\n" +
			"A copy that finds it busy is answered 503 with Retry-After, never 200.\nA retry after lease_until takes the claim over: UPDATE … WHERE state='busy' AND lease_until < now.",
		"go": "// claim: INSERT … ON CONFLICT DO UPDATE SET owner=$3 WHERE c.state='busy' AND c.lease_until < $4 RETURNING owner\n" +
			"if state == \"busy\" { w.Header().Set(\"Retry-After\", \"2\"); w.WriteHeader(503); return } // never 200\n" +
			"// done: UPDATE … SET state='done' WHERE owner=$3 AND state='busy', after the work",
		"typescript": "// claim: INSERT … ON CONFLICT DO UPDATE SET owner=$3 WHERE c.state='busy' AND c.lease_until < $4 RETURNING owner\n" +
			"if (state === \"busy\") return reply.header(\"Retry-After\", \"2\").status(503).send(); // never 200\n" +
			"// done: UPDATE … SET state='done' WHERE owner=$3 AND state='busy', after the work",
		"python": "# claim: INSERT … ON CONFLICT DO UPDATE SET owner=%s WHERE c.state='busy' AND c.lease_until < %s RETURNING owner\n" +
			"if state == \"busy\": return Response(status=503, headers={\"Retry-After\": \"2\"})  # never 200\n" +
			"# done: UPDATE … SET state='done' WHERE owner=%s AND state='busy', after the work",
	},
	"answer-outside": {"": "Write the answer after the try that guards the work: an answer that fails is no failure of the work.\n" +
		"Release the key only if the work failed.\nThe sender comes again, finds the key done, and gets its 200."},
	"own-claim": {"": "Give each claim a random owner and compare it: UPDATE … SET state='free' WHERE id=$1 AND owner=$2 AND state='busy'.\n" +
		"In Redis one script compares and deletes; a plain DEL takes the claim of another worker.\n" +
		"If no row changed, the claim was lost: roll back, and answer 503."},
	"commit-first": {
		"": "Answer only after the database has committed the effect, or the event itself into an inbox table.\n" +
			"A worker reads the inbox table and deletes a row in the transaction of its work.\n" +
			"No queue in memory, no work after the answer.",
		"go": "_, err := db.Exec(`INSERT INTO inbox(source, id, body) VALUES($1, $2, $3) ON CONFLICT DO NOTHING`, source, id, body)\n" +
			"if err != nil { w.WriteHeader(503); return }\nw.WriteHeader(202) // no go work(event): workers read the inbox",
		"typescript": "await db.query(\"INSERT INTO inbox(source, id, body) VALUES($1, $2, $3) ON CONFLICT DO NOTHING\", [source, id, body]);\n" +
			"return reply.status(202).send(); // only after await; an exception is 503\n// no work after the answer: workers read the inbox",
		"python": "cur.execute(\"INSERT INTO inbox(source, id, body) VALUES(%s, %s, %s) ON CONFLICT DO NOTHING\", (source, id, body))\n" +
			"connection.commit()  # an exception is 503\nreturn Response(status=202)  # no background task: workers read the inbox",
	},
	"duplicate-is-success": {"": "A duplicate is a success: the event is done.\nAnswer 200 when the unique key already exists, before any work.\n" +
		"INSERT … ON CONFLICT DO NOTHING raises no error for it."},
	"verify": {
		"": "Verify before anything else, over the raw bytes as they came, with a library of Standard Webhooks or the provider's own.\n" +
			"The signed content is id.timestamp.body; compare in constant time.\nWithout a good signature answer 401 and write nothing.",
		"go": "body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))\n" +
			"verified, err := verifier.Verify(r.Header, body) // github.com/grapnelhq/grapnel/sign\n" +
			"if err != nil { w.WriteHeader(401); return } // before parsing, before the database",
		"typescript": "const body = await rawBody(request); // the bytes, before any JSON parser\n" +
			"try { new Webhook(secret).verify(body, request.headers); } // standardwebhooks\n" +
			"catch { return reply.status(401).send(); } // before parsing, before the database",
		"python": "body = request.get_data()  # the bytes, before any JSON parser\n" +
			"try: Webhook(secret).verify(body, request.headers)  # standardwebhooks\n" +
			"except WebhookVerificationError: return Response(status=401)  # before the database",
	},
	"verify-first": {"": "First the signature, then the record of the id: move the check to the top of the handler.\n" +
		"Take the id from signed material only.\nA refused request writes nothing."},
	"tolerance": {"": "Refuse a signed time that differs from now by more than 5 minutes, both ways.\n" +
		"Take the time from the signed content.\nAnswer 400 or 401 and write nothing."},
	"rotation": {"": "The header holds several signatures, separated by spaces: accept the request if any of them is good.\n" +
		"Skip versions that you do not know.\nDuring a rotation try each secret that is still valid."},
	"version-gate": {"": "One statement decides: INSERT … ON CONFLICT (id) DO UPDATE SET … WHERE excluded.version > t.version.\n" +
		"No row changed means stale or equal: answer 200.\nNo SELECT before it, and no UPDATE alone: the row may not exist."},
	"state-machine": {"": "List the edges that are allowed, and write: UPDATE … SET status=$new WHERE id=$id AND status = ANY($from).\n" +
		"A state without edges is final.\nNo row changed means stale: answer 200."},
	"timestamp-gate": {"": "Compare the pair (time, event id): … WHERE (excluded.at, excluded.event) > (t.at, t.event).\n" +
		"Keep the time at full precision.\nDecide in the statement that writes, not before it."},
	"key-by-id": {"": "The key is (source, event id) from the signed headers.\n" +
		"If a provider sends no id, hash the raw body, or a canonical form that sorts members at every level and keeps numbers as written.\n" +
		"JSON.stringify with a list of keys drops nested members: do not use it."},
	"numbers": {
		"": "Read numbers as text or decimals, not as floating point.\nStore ids and amounts in columns of type text, bigint or numeric.\n" +
			"Compare and hash the digits as they were written.",
		"go":         "d := json.NewDecoder(bytes.NewReader(body))\nd.UseNumber() // into any; or fields of type int64 or json.Number\nerr := d.Decode(&event)",
		"typescript": "// JSON.parse rounds beyond 2^53: parse with the source text of numbers\nimport { parse } from \"lossless-json\";\nconst event = parse(body);",
		"python":     "from decimal import Decimal\nevent = json.loads(body, parse_float=Decimal)\n# int is exact in Python; store numeric or text columns",
	},
	"limits": {
		"": "Limit the body (1 MiB) while it is read, also without Content-Length, and answer 413.\n" +
			"Give headers, body and idle connections a timeout.\nDo not decompress before the limit, and do not give each connection a worker.",
		"go": "http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute}\n" +
			"body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))\n" +
			"if err != nil { w.WriteHeader(413); return }",
		"typescript": "app.use(express.raw({ type: \"*/*\", limit: \"1mb\", inflate: false })); // 413 beyond it\n" +
			"server.headersTimeout = 5_000; server.requestTimeout = 15_000;\nserver.keepAliveTimeout = 60_000;",
		"python": "app.config[\"MAX_CONTENT_LENGTH\"] = 1 << 20  # 413 beyond it\n" +
			"# gunicorn --worker-class gthread --threads 8 --timeout 30, behind a proxy that buffers bodies\n# never a single synchronous worker",
	},
	"parse": {"": "Parse inside try, or check the error, after the signature.\n" +
		"A body that cannot be parsed is refused for good: 400 or 422, or stored as a dead letter and answered 200.\nNever 5xx: the next attempt is the same."},
	"unknown-types": {"": "Answer 200 to types that you do not handle, after the signature.\n" +
		"Ignore members that you do not know.\nSenders add both without notice."},
	"inbox": {"": "Commit the event into an inbox table, answer 202, and let workers do the work.\n" +
		"Limit the requests at once, and answer 429 with Retry-After beyond it.\nOne worker at a time for each ordering key."},
	"answers": {"": "Done, duplicate or stale: 2xx. A failure that passes (timeout, lock, 5xx further down): 503.\n" +
		"A failure that does not pass (validation): 422, or store a dead letter and answer 200.\nAn unknown error counts as one that passes, for a limited number of attempts."},
	"window": {"": "Keep ids longer than the sender's last retry and replay: 8 days.\n" +
		"One horizon for the check and for the cleanup.\nDelete by age in batches, and only ids that are done."},
	"methods": {"": "Route POST alone to the handler, at the exact path; answer 405 to other methods.\n" +
		"No redirects and no catch-all 200 for other paths.\nSenders follow no redirect."},
}

// Labels of events whose second effect shows a mistake of its own.
const (
	givesUp     = "sender gives up"
	leasePasses = "lease passes"
)
