"""The package as a whole: its version, its types, and that it needs the standard library alone."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile
from typing import Any

import pytest
from worlds import SECRET, signed

import grapnel
from grapnel.receive import Delivery, Outcome, canonical
from grapnel.receive.classify import classify

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_version_is_the_servers() -> None:
    server = re.search(r'var Version = "([^"-]+)', (ROOT / "grapnel.go").read_text())
    assert server and server[1] == grapnel.__version__


def test_json_that_is_too_deep_is_a_permanent_error() -> None:
    body = b"[" * 100_000
    with pytest.raises(json.JSONDecodeError) as caught:
        Delivery("acme", "evt_1", body, {}).json()
    assert classify(caught.value)[0] is Outcome.PERMANENT
    with pytest.raises(ValueError, match="too deep"):
        canonical(body)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    """The wheel and the sdist. The wheel is built from the sdist."""
    directory = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT / "sdk/python")]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return wheel, sdist


def test_the_readme_runs(built: tuple[pathlib.Path, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """The program at the top of README.md runs as printed, with the installed wheel and no package beside it, and pays an invoice once."""
    installed = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(installed), str(built[0])]
    subprocess.run([*install, "--disable-pip-version-check", "--root-user-action=ignore"], check=True)
    program = (ROOT / "sdk/python/README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert len([line for line in program.splitlines() if line]) <= 10
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.executescript("create table invoices(id text, paid integer default 0); insert into invoices(id) values('inv_1')")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {"PORT": str(port), "DB": str(tmp_path / "shop.db"), "SECRET": SECRET, "PYTHONPATH": str(installed)}
        with subprocess.Popen([sys.executable, "-S", "-c", program], env=environment, stderr=subprocess.DEVNULL) as server:
            try:
                request = signed("evt_1", b'{"data":{"invoice":"inv_1"}}', time.time())
                outcomes = [send(port, request) for _ in range(2)]
            finally:
                server.terminate()
        assert outcomes == ["processed", "duplicate"]
        assert shop.execute("select paid from invoices").fetchall() == [(1,)]


def send(port: int, request: Any) -> str | None:
    """Sends once the server listens."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with contextlib.closing(connection), contextlib.suppress(ConnectionRefusedError):
            connection.request("POST", "/", request.body, dict(request.headers))
            answer = connection.getresponse()
            answer.read()
            return answer.headers["webhook-outcome"]
        threading.Event().wait(0.05)


def test_the_package_has_what_it_needs(built: tuple[pathlib.Path, pathlib.Path]) -> None:
    """Both have the types, the parts and the scripts of Redis."""
    wheel, sdist = built
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for script in (ROOT / "sdk/conformance/redis").iterdir():
            assert archive.read(f"grapnel/receive/lua/{script.name}") == script.read_bytes()
        metadata = archive.read(f"grapnel-{grapnel.__version__}.dist-info/METADATA").decode()
    assert {"grapnel/py.typed", "grapnel/receive/kit.py", "grapnel/client/__init__.py"} <= names
    assert not re.search(r"^Requires-Dist: (?!.*extra ==)", metadata, re.MULTILINE)
    assert not [name for name in names if name.startswith("tests")]
