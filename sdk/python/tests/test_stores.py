"""One suite for every store, sync and async: what a claim promises, at the edges of leases and windows."""

import asyncio
import concurrent.futures
import contextlib
import json
import pathlib
import threading
import time
from typing import Any

import psycopg
import pytest
from worlds import ALL, SQL, World

from grapnel.receive import Gone, NotDead, Permanent, Retryable, RetryAfter, SqlStore, Stale
from grapnel.receive.drivers import Sqlite, session
from grapnel.receive.gates import GapGate, Gate, Result, StateMachine, TimestampGate, VersionGate
from grapnel.receive.redis import RedisStore
from grapnel.receive.steps import run
from grapnel.receive.store import Bid, Key
from grapnel.receive.turns import Turns

every_store = pytest.mark.parametrize("world", ALL, indirect=True)
every_database = pytest.mark.parametrize("world", SQL, indirect=True)

WINDOWS = json.loads((pathlib.Path(__file__).resolve().parents[2] / "conformance" / "windows.json").read_text())["cases"]


@every_store
def test_windows(world: World) -> None:
    """Every case of windows.json that has steps, on this store."""
    cleans = not isinstance(world.store, RedisStore)  # which cleans by itself, by times to live
    for number, case in enumerate(WINDOWS):
        given, key = case["given"], Key(f"{world.source}-{number}", "1")
        if cleans or not any(step["op"] == "clean" for step in given["steps"]):
            results = [_step(world, given, key, step) for step in given["steps"]]
            assert results == case["want"].get("results", []), case["name"]


def _step(world: World, given: dict[str, Any], key: Key, step: dict[str, Any]) -> Any:
    op, now, owner = step["op"], 1_790_000_000_000 + step["at_ms"], step.get("by", "")

    def body(unit: Any) -> Any:
        if op in ("claim", "replay"):
            bid = Bid(key, owner, now, now + given["lease_ms"], now + given["window_ms"], "hash", op == "replay")
            row = yield from unit.claim(bid)
            if row and row.owner == owner:
                return "claimed"
            return "refused" if op == "replay" else {"done": "duplicate", "busy": "in_progress", "dead": "dead_lettered"}[row.state]
        if op == "clean":
            return (yield from unit.clean(key.source, now, 100))
        if op == "renew":
            held = yield from unit.renew(key, owner, now, now + given["lease_ms"])
        else:
            state = {"complete": "done", "release": "free", "dead": "dead"}[op]
            held = yield from unit.settle(key, owner, state, "processed", now)
        return "ok" if held else "lost"

    return world.go(world.store.unit(body, 1000))


def outcomes(answers: list[Any]) -> set[str]:
    return {str(answer.outcome) for answer in answers}


@every_database
def test_an_effect_and_its_key_commit_together(world: World) -> None:
    failing = [Retryable("not now"), None]

    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        if error := failing.pop(0):
            raise error

    hook = world.hook("transaction", handle)
    assert world.send(hook, "evt_1").outcome == "retryable"
    assert world.ledger() == []
    assert [world.send(hook, "evt_1").outcome for _ in range(3)] == ["processed", "duplicate", "duplicate"]
    assert world.ledger() == ["evt_1"]


@every_database
def test_of_twenty_copies_one_has_an_effect(world: World) -> None:
    hook = world.hook("transaction", world.record, wait=20)
    answers = world.send_many(hook, ["evt_1"] * 20)
    assert world.ledger() == ["evt_1"]
    assert outcomes(answers) <= {"processed", "duplicate"}
    assert sum(answer.outcome == "processed" for answer in answers) == 1


@every_store
def test_of_twenty_copies_one_handler_runs(world: World) -> None:
    runs: list[str] = []
    hook = world.hook("claim", lambda d: runs.append(d.id), wait=20)
    answers = world.send_many(hook, ["evt_1"] * 20)
    assert runs == ["evt_1"]
    assert outcomes(answers) <= {"processed", "duplicate"}


@every_store
def test_a_claim_counts_its_deliveries(world: World) -> None:
    seen: list[tuple[int, int]] = []

    def handle(d: Any) -> None:
        seen.append((d.generation, d.attempt))
        raise RetryAfter(7, "not now")

    hook = world.hook("claim", handle, max_deliveries=3)
    answers = [world.send(hook, "evt_1") for _ in range(4)]
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [answer.headers.get("retry-after") for answer in answers] == ["7", "7", None, None]
    last = "dead_lettered" if world.store.letters else "permanent"
    assert [answer.outcome for answer in answers] == ["retryable", "retryable", last, last]


@every_database
def test_a_transaction_counts_its_deliveries(world: World) -> None:
    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        raise ValueError("unknown")

    hook = world.hook("transaction", handle, max_deliveries=3)
    answers = [world.send(hook, "evt_1").outcome for _ in range(4)]
    assert answers == ["retryable", "retryable", "dead_lettered", "dead_lettered"]
    assert world.ledger() == []


@every_database
@pytest.mark.parametrize("mode", ["transaction", "claim"])
def test_a_dead_letter_is_replayed_once(world: World, mode: str) -> None:
    errors: list[Exception | None] = [Permanent("no such invoice"), Retryable("still not"), None]
    replayed: list[bool] = []

    def handle(d: Any, *_: Any) -> None:
        replayed.append(d.replayed)
        if error := errors.pop(0):
            raise error

    kit = world.kit()
    hook = getattr(kit, mode)(world.handler(handle))
    assert world.send(hook, "evt_1").outcome == "dead_lettered"
    (letter,) = world.wait(kit.dead_letters())
    assert (letter.key.id, letter.error, letter.deliveries) == ("evt_1", "Permanent: no such invoice", 1)
    assert "authorization" not in letter.headers and letter.headers["webhook-id"] == "evt_1"
    assert world.wait(hook.replay("evt_1")) == "dead_lettered"
    assert world.wait(hook.replay("evt_1")) == "processed"
    with pytest.raises(NotDead):
        world.wait(hook.replay("evt_1"))
    with pytest.raises(NotDead):
        world.wait(hook.replay("evt_2"))
    (letter,) = world.wait(kit.dead_letters())
    assert (letter.result, letter.error) == ("processed", "Retryable: still not")
    assert replayed == [False, True, True]
    assert world.send(hook, "evt_1").outcome == "duplicate"


@every_store
def test_a_permanent_failure_without_dead_letters_is_refused(world: World) -> None:
    def handle(d: Any) -> None:
        raise Permanent("no such invoice")

    hook = world.hook("claim", handle, dead_letters=False, max_deliveries=2)
    assert [world.send(hook, "evt_1").outcome for _ in range(3)] == ["permanent"] * 3


@every_store
def test_another_body_under_a_processed_id_is_a_conflict(world: World) -> None:
    runs: list[str] = []
    kit = world.kit()
    hook = kit.claim(world.handler(lambda d: runs.append(d.text)))
    assert world.send(hook, "evt_1", 1).outcome == "processed"
    assert [world.send(hook, "evt_1", n).outcome for n in (2, 3, 1)] == ["conflict", "conflict", "duplicate"]
    assert len(runs) == 1
    if world.store.letters:
        (letter,) = world.wait(kit.dead_letters())
        assert letter.error.startswith("conflict") and b'"data": 2' in letter.body


@every_store
def test_ids_of_two_sources_never_meet(world: World) -> None:
    runs: list[str] = []
    for source in (world.source, world.source + "-other"):
        hook = world.hook("claim", lambda d: runs.append(d.source), source=source)
        assert world.send(hook, "evt_1").outcome == "processed"
    assert runs == [world.source, world.source + "-other"]


@every_store
def test_a_forged_request_writes_nothing(world: World) -> None:
    runs: list[str] = []
    hook = world.hook("claim", lambda d: runs.append(d.id))
    assert world.send(hook, "evt_1", secret="whsec_YW5vdGhlci1zZWNyZXQtb2YtMjQtYnkh").outcome == "unverified"
    assert world.send(hook, "evt_1").outcome == "processed"
    assert runs == ["evt_1"]


@every_store
def test_a_lease_that_passed_is_taken_over_and_its_owner_is_lost(world: World) -> None:
    """The first handler takes longer than its lease, and the second delivery runs while it does."""
    runs: list[int] = []

    def handle(d: Any) -> Any:
        runs.append(d.generation)
        if d.generation == 1:
            world.now += 31
            second = hook.handle(world.request("evt_1"))
            answers.append((yield second))

    answers: list[Any] = []
    hook = world.hook("claim", handle)
    first = world.send(hook, "evt_1")
    assert (first.outcome, first.headers["retry-after"]) == ("in_progress", "1")
    assert answers[0].outcome == "processed"
    assert runs == [1, 2]
    assert world.send(hook, "evt_1").outcome == "duplicate"


@every_store
def test_a_copy_of_a_running_event_is_in_progress(world: World) -> None:
    answers: list[Any] = []

    def handle(d: Any) -> Any:
        answers.append((yield hook.handle(world.request("evt_1"))))

    hook = world.hook("claim", handle, wait=0.02)
    assert world.send(hook, "evt_1").outcome == "processed"
    assert answers[0].outcome == "in_progress"


@every_store
@pytest.mark.parametrize(("error", "outcome"), [(None, "processed"), (Stale(), "stale"), (Retryable(), "retryable"), (Gone(), "gone")])
def test_a_copy_that_waited_gets_the_outcome(world: World, error: Exception | None, outcome: str) -> None:
    """The store changes while the copy waits: the first owner ends in the middle of the copy's wait."""
    hook = world.hook("claim", lambda d: None, wait=20)
    key, looks = Key(world.source, "evt_1"), 0
    now = int(world.now * 1000)
    request = world.request("evt_1")
    import hashlib

    bid = Bid(key, "first", now, now + 30_000, now + 60_000, hashlib.sha256(request.body).hexdigest())
    world.go(world.store.unit(lambda unit: unit.claim(bid), 1000))
    core = hook._core
    unchanged = core.io.sleep

    def sleep(seconds: float) -> Any:
        nonlocal looks
        looks += 1
        if looks > 1:
            return unchanged(0)
        state = "free" if outcome in ("retryable", "gone") else "done"
        steps = world.store.unit(lambda unit: unit.settle(key, "first", state, outcome, now), 1000)
        from grapnel.receive.steps import arun, run

        return arun(steps) if world.asynchronous else run(steps)

    core.io.sleep = sleep
    assert world.wait(hook.handle(request)).outcome == outcome
    assert looks == 1


@every_database
def test_a_stale_event_is_done_without_an_effect(world: World) -> None:
    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        raise Stale

    hook = world.hook("transaction", handle)
    assert [world.send(hook, "evt_1").outcome for _ in range(2)] == ["stale", "duplicate"]
    assert world.ledger() == []


@every_database
def test_a_second_copy_waits_for_the_lock_no_longer_than_allowed(world: World) -> None:
    answers: list[Any] = []

    def handle(d: Any, tx: Any) -> Any:
        if world.asynchronous or world.store.__class__.__name__ != "DjangoStore":
            answers.append((yield hook.handle(world.request("evt_1"))))
        else:  # Django has one connection for each thread
            other = threading.Thread(target=lambda: (answers.append(hook.handle(world.request("evt_1"))), world.store.leave_thread()))
            other.start()
            other.join()
        yield from world.record(d, tx)

    hook = world.hook("transaction", handle, wait=0.05)
    assert world.send(hook, "evt_1").outcome == "processed"
    assert answers[0].outcome == "in_progress"
    assert world.ledger() == ["evt_1"]


@every_database
def test_what_a_failed_statement_has_undone_is_not_answered_as_processed(world: World) -> None:
    """A handler goes on after a failure that ended its transaction, or all that was done in it."""
    failing = [True, False]

    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        if failing.pop(0):
            with contextlib.suppress(Exception):
                yield from _end_by_a_failure(tx)

    hook = world.hook("transaction", handle)
    assert world.send(hook, "evt_1").outcome == "retryable"
    assert world.ledger() == []
    assert world.send(hook, "evt_1").outcome == "processed"
    assert world.ledger() == ["evt_1"]


def _end_by_a_failure(tx: Any) -> Any:
    found = session(tx)
    if found.dialect == "postgres":
        yield from found.execute("select 1/0")
    else:
        yield from found.execute("insert or rollback into webhook_dead(source) values(null)")


@every_database
def test_different_events_at_once_are_all_processed(world: World) -> None:
    hook = world.hook("transaction", world.record, wait=10)
    events = [f"evt_{n:02}" for n in range(32 if world.asynchronous else 20)]
    assert outcomes(world.send_many(hook, events)) == {"processed"}
    assert world.ledger() == events


@pytest.mark.parametrize("world", ["aiosqlite"], indirect=True)
def test_transactions_of_sqlite_take_turns(world: World) -> None:
    hook = world.hook("transaction", world.record, wait=10)  # the last one waits for 31 commits
    events = [f"evt_{n:02}" for n in range(32)]
    world.send(hook, "first")  # now the store knows its database
    assert outcomes(world.send_many(hook, events)) == {"processed"}

    def stored(unit: Any) -> Any:
        return (yield from unit.session.execute("select event from ledger order by rowid"))

    assert [row[0] for row in world.go(world.store.unit(stored, 1000))] == ["first", *events]


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_threads_that_come_first_together_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    both, made, running, most = threading.Barrier(2), Turns, list[str](), list[int]()

    def together(asynchronous: bool) -> Turns:
        both.wait(9)
        return made(asynchronous)

    def begin(found: Sqlite, wait_ms: int, limited: bool = True) -> Any:  # no lock of the database, so the turn alone is seen
        running.append("")
        time.sleep(0.05)
        most.append(len(running))
        running.pop()
        yield from ()

    monkeypatch.setattr("grapnel.receive.sql.Turns", together)
    monkeypatch.setattr(Sqlite, "begin", begin)
    store = SqlStore(world.store._connect)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for unit in [pool.submit(run, store.unit(lambda _: iter(()), 5000)) for _ in range(2)]:  # type: ignore[arg-type,return-value]
            unit.result()
    assert most == [1, 1]


@pytest.mark.parametrize("world", ["sqlite", "aiosqlite"], indirect=True)
def test_a_handler_cannot_use_a_commit_that_was_prepared_before(world: World) -> None:
    """Python keeps prepared statements, and SQLite asks the authorizer about each only when it is prepared."""

    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        yield tx.execute("commit")

    def others(unit: Any) -> Any:
        yield from unit.session.rollback()
        for statement in ("begin", "commit", "begin"):
            yield unit.raw.execute(statement)

    hook = world.hook("transaction", handle)
    for event in ("evt_1", "evt_2"):
        world.go(world.store.unit(others, 1000))
        assert world.send(hook, event).outcome == "retryable"
    assert world.ledger() == []


@pytest.mark.parametrize("world", ["psycopg", "psycopg-async"], indirect=True)
def test_connections_that_commit_by_themselves(world: World) -> None:
    """Their effect and its key commit together, too, at the level that the connection has."""
    connect = world.store._connect

    def committing() -> Any:
        connection = connect()
        connection.autocommit = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    async def committing_later() -> Any:
        connection = await connect()
        await connection.set_autocommit(True)
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        return connection

    world.store._connect = committing_later if world.asynchronous else committing
    failing, levels = [Retryable("not now"), None], list[str]()

    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        levels.extend((yield from session(tx).execute("show transaction_isolation"))[0])
        if error := failing.pop(0):
            raise error

    hook = world.hook("transaction", handle)
    assert world.send(hook, "evt_1").outcome == "retryable"
    assert world.ledger() == []
    assert [world.send(hook, "evt_1").outcome for _ in range(2)] == ["processed", "duplicate"]
    assert world.ledger() == ["evt_1"]
    assert levels == ["repeatable read"] * 2


@every_database
def test_a_handler_cannot_commit(world: World) -> None:
    """Its commit is refused, so the answer is no success and nothing is committed."""

    def handle(d: Any, tx: Any) -> Any:
        yield from world.record(d, tx)
        yield tx.commit()

    hook = world.hook("transaction", handle)
    assert world.send(hook, "evt_1").outcome == "retryable"
    assert world.ledger() == []


@every_store
def test_a_key_is_retained_for_the_window(world: World) -> None:
    runs: list[str] = []
    kit = world.kit()
    hook = kit.claim(world.handler(lambda d: runs.append(d.id)))
    assert world.send(hook, "evt_1").outcome == "processed"
    world.now += 8 * 86_400
    assert world.send(hook, "evt_1").outcome == "duplicate"
    if not isinstance(world.store, RedisStore):
        assert world.wait(kit.clean()) == 0
        world.now += 1
        assert world.wait(kit.clean()) == 1
    assert runs == ["evt_1"]


@every_store
def test_more_requests_than_allowed_are_refused(world: World) -> None:
    answers: list[Any] = []

    def handle(d: Any) -> Any:
        answers.append((yield hook.handle(world.request("evt_2"))))

    hook = world.hook("claim", handle, concurrency=1)
    assert world.send(hook, "evt_1").outcome == "processed"
    assert (answers[0].outcome, answers[0].headers["retry-after"]) == ("overloaded", "1")


@pytest.mark.parametrize("world", ["psycopg", "sqlite"], indirect=True)
def test_a_row_from_before_the_gate_gives_way(world: World) -> None:
    """Its column is null: version, time and state are those of the first event that comes."""
    gates: list[tuple[Gate, dict[str, Any]]] = [
        (VersionGate("gated"), {"version": 1}),
        (TimestampGate("gated"), {"time_ns": "2026-09-21T14:13:20Z", "event": "evt_1"}),
        (StateMachine("gated", {"open": ["paid"]}), {"status": "paid"}),
        (GapGate("gated"), {"version": 1}),
    ]

    def body(unit: Any) -> Any:
        at = session(unit.raw)
        yield from at.execute("create table gated(id text primary key, version bigint, time_ns bigint, event text, status text)")
        results = []
        for number, (gate, row) in enumerate(gates):
            yield from at.execute("insert into gated(id) values(?)", (str(number),))
            for _ in range(2):
                results.append((yield from gate.steps(at, {"id": str(number), **row}, now=world.now, first=world.now)))
        yield from at.execute("drop table gated")
        return results

    assert world.go(world.store.unit(body, 1000)) == ["applied", "equal"] * len(gates)


def test_a_gate_says_what_its_handler_raises() -> None:
    for result in Result:
        raised = {"stale": Stale, "parked": RetryAfter, "refused": Permanent, "rejected": Permanent, "dead_letter": Permanent}
        if kind := raised.get(result):
            with pytest.raises(kind):
                result.check()
        else:
            assert result.check() is result


@every_store
def test_a_lease_is_renewed_while_the_handler_runs(world: World) -> None:
    leases: list[int] = []

    def handle(d: Any) -> Any:
        world.now += 20
        while d.remaining() > 0 and (not leases or leases[-1] == started + 30_000):
            claim = yield from world.store.unit(lambda unit: unit.look(Key(d.source, d.id)), 1000)
            leases.append(claim.lease_until)
            if world.asynchronous:
                yield asyncio.sleep(0)

    hook = world.hook("claim", handle)
    started = int(world.now * 1000)
    unchanged = hook._core.io.hold
    hook._core.io.hold = lambda call, renew, every, timeout: unchanged(call, renew, 0.001, timeout)
    assert world.send(hook, "evt_1").outcome == "processed"
    assert leases[-1] == started + 50_000


@pytest.mark.parametrize("world", ["memory-async", "psycopg-async", "redis-async"], indirect=True)
def test_a_coroutine_is_cancelled_at_its_timeout(world: World) -> None:
    waits = [asyncio.Event(), None]

    def handle(d: Any) -> Any:
        if event := waits.pop(0):
            yield event.wait()

    hook = world.hook("claim", handle, timeout=0.02)
    assert [world.send(hook, "evt_1").outcome for _ in range(2)] == ["retryable", "processed"]


@pytest.mark.parametrize("world", ["memory-async", "psycopg-async", "redis-async"], indirect=True)
def test_a_cancelled_request_releases_its_key(world: World) -> None:
    """A server that shuts down cancels its tasks; the next delivery need not wait for the lease."""
    waits = [asyncio.Event(), None]
    running = asyncio.Event()

    def handle(d: Any) -> Any:
        running.set()
        if event := waits.pop(0):
            yield event.wait()

    hook = world.hook("claim", handle)

    async def cancelled() -> None:
        task = asyncio.create_task(hook.handle(world.request("evt_1")))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.wait(cancelled())
    assert world.send(hook, "evt_1").outcome == "processed"


@pytest.mark.parametrize("world", ["memory", "memory-async"], indirect=True)
def test_an_observer_changes_no_answer(world: World) -> None:
    seen: list[Any] = []

    def observe(observation: Any) -> None:
        seen.append((str(observation.outcome), observation.delivery and observation.delivery.id))
        raise RuntimeError("the metrics are away")

    hook = world.hook("claim", lambda d: None, observe=observe)
    assert world.send(hook, "evt_1").outcome == "processed"
    assert world.send(hook, "evt_1", secret="whsec_YW5vdGhlci1zZWNyZXQtb2YtMjQtYnkh").outcome == "unverified"
    assert seen == [("processed", "evt_1"), ("unverified", None)]


@pytest.mark.parametrize("world", ["aiosqlite"], indirect=True)
def test_a_cancelled_request_leaves_its_connection_usable(world: World) -> None:
    """It is cancelled after each number of turns of the loop, so also while its transaction begins."""
    hook = world.hook("transaction", world.record)

    async def cancelled(turns: int) -> None:
        task = asyncio.create_task(hook.handle(world.request(f"cancelled-{turns}")))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    for turns in range(1, 30):
        world.wait(cancelled(turns))
        assert world.send(hook, f"evt-{turns}").outcome == "processed"
