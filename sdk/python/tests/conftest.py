"""Real servers for the tests: a PostgreSQL and a Redis of their own, on sockets and ports of loopback."""

import contextlib
import glob
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator

import pytest
import worlds


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(5)  # one that was told to end may be at its last lines
    assert not [thread.name for thread in left if thread.is_alive()]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a private PostgreSQL, which listens on a socket alone."""
    found = [*glob.glob("/usr/lib/postgresql/*/bin/postgres"), "/usr/local/bin/postgres", shutil.which("postgres") or ""]
    binaries = pathlib.Path(next(path for path in found if path and os.path.exists(path))).parent
    # PostgreSQL refuses to run as root.
    user = {"user": "postgres" if _exists("postgres") else "nobody"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="grapnel-py-pg-") as directory:
        if user:
            shutil.chown(directory, user["user"])
        data, run = f"{directory}/data", {"cwd": directory, "stdout": subprocess.DEVNULL, **user}
        initdb = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "--locale=C", "-E", "UTF8"]
        subprocess.run(initdb, check=True, **run)
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={directory}", "-c", "fsync=off"]
        server = subprocess.Popen([binaries / "postgres", "-D", data, *options], stderr=subprocess.DEVNULL, **run)
        try:
            ready = [binaries / "pg_isready", "-q", "-h", directory, "-t", "20"]
            while subprocess.run(ready).returncode:
                assert server.poll() is None, "postgres ended"
                threading.Event().wait(0.05)
            yield f"postgresql://postgres@/postgres?host={directory}"
        finally:
            server.send_signal(2)  # SIGINT: a fast shutdown
            server.wait()


def _exists(user: str) -> bool:
    import pwd

    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(user))
    return False


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a private Redis."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with tempfile.TemporaryDirectory(prefix="grapnel-py-redis-") as directory:
        server = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout
            assert any("eady to accept connections" in line for line in server.stdout), "redis-server ended"
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.communicate()


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[worlds.World]:
    """The world that the test's parameter names; its servers start when the first test needs them."""
    servers = (lambda: request.getfixturevalue("postgres"), lambda: request.getfixturevalue("redis_url"))
    with worlds.world(request.param, *servers, tmp_path) as made:
        yield made
