"""The package as a whole: its version, its types, and that it needs the standard library alone."""

import json
import pathlib
import re

import pytest

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
