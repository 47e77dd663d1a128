"""The package as a whole: its version, its types, and that it needs the standard library alone."""

import pathlib
import re

import grapnel

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_version_is_the_servers() -> None:
    server = re.search(r'var Version = "([^"-]+)', (ROOT / "grapnel.go").read_text())
    assert server and server[1] == grapnel.__version__
