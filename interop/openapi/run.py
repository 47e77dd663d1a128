#!/usr/bin/env python3
"""Holds /openapi.json against the tools that others use: linters, a fuzzer, and a client that is generated from it.

It builds the binary, starts it on loopback, installs the tools at the versions of requirements.txt and
package-lock.json into a cache, and prints what each of them found. It ends with 1 if there is a finding.
Arguments choose among the tools; --seed, --examples and --path are Schemathesis's.
"""

import argparse
import collections
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEY = "grp_" + secrets.token_urlsafe(32)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what is delivered; /refuse makes dead letters."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(400 if self.path == "/refuse" else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def run(*command, cwd=None, env=None, timeout=600):
    """What a command prints, and whether it ended well."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, env={**os.environ, **(env or {})}, timeout=timeout,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout


def must(*command, **options):
    ok, text = run(*command, **options)
    if not ok:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{text}")
    return text


def install(cache):
    """Where the tools are, installed if the pins have changed. A directory is complete once it has its name."""
    def stamped(kind, *files):
        digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in files)).hexdigest()[:16]
        return cache / f"{kind}-{sys.version_info.major}.{sys.version_info.minor}-{digest}"

    python = stamped("python", "requirements.txt")
    if not python.exists():
        # A virtual environment cannot be moved, so it is marked instead of renamed.
        building = python.with_suffix(".env")
        shutil.rmtree(building, ignore_errors=True)
        must(sys.executable, "-m", "venv", building)
        must(building / "bin" / "pip", "install", "--quiet", "--no-deps", "-r", HERE / "requirements.txt")
        python.touch()
    node = stamped("node", "package.json", "package-lock.json")
    if not node.exists():
        with tempfile.TemporaryDirectory(dir=cache) as building:
            building = pathlib.Path(building) / "node"
            building.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, building)
            must("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=building)
            building.rename(node)
    return python.with_suffix(".env") / "bin", node


@contextlib.contextmanager
def serving(work):
    """A receiver, and the server as it is built from this tree; yields their addresses."""
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=receiver.serve_forever)
    thread.start()
    binary = work / "grapnel"
    must(os.environ.get("GO", "go"), "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/grapnel", cwd=ROOT, env={"CGO_ENABLED": "0"})
    with open(work / "server.log", "w") as log:
        server = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--store", f"sqlite:{work}/data/grapnel.db", "--egress-allow", "127.0.0.0/8"],
            env={**os.environ, "GRAPNEL_ADMIN_KEY": KEY}, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = server.stdout.readline()
            if " at " not in line:
                sys.exit(f"the server did not start:\n{(work / 'server.log').read_text()}")
            yield line.rsplit(" ", 1)[1].strip(), f"http://127.0.0.1:{receiver.server_port}"
        finally:
            server.terminate()
            server.communicate()
            receiver.shutdown()
            receiver.server_close()
            thread.join()


class Server:
    """As much of the API as the preparations need."""

    def __init__(self, address):
        self.address = address

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.address + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def things(self, receiver):
        """Something of every kind, so that valid requests find what they are about."""
        def make(kind, n, body):
            return [self.ask("POST", f"/v1/{kind}", body(i)).get("id") for i in range(n)]

        def endpoints(n, **more):
            return make("endpoints", n, lambda i: {"url": receiver + "/take", **more})

        def sources(n, prefix):
            return make("sources", n, lambda i: {"name": f"{prefix}-{i}", "verify": {"scheme": "none"}})

        things, doomed = {}, {}
        paused = endpoints(1, status="paused", event_types=["held.*"])
        refusing = make("endpoints", 1, lambda i: {"url": receiver + "/refuse", "event_types": ["refused.*"], "policy": {"classify": {"400": "fail"}}})
        things["/v1/endpoints/"] = endpoints(2) + paused + refusing
        doomed["/v1/endpoints/"] = endpoints(8, event_types=["none"])
        things["/v1/sources/"] = sources(2, "things")
        things["/in/"] = things["/v1/sources/"]
        doomed["/v1/sources/"] = sources(8, "doomed")
        things["/v1/policies/"] = make("policies", 2, lambda i: {"name": f"things-{i}", "timeout": "5s"})
        doomed["/v1/policies/"] = make("policies", 8, lambda i: {"name": f"doomed-{i}"})
        things["/v1/keys/"] = make("keys", 2, lambda i: {"name": f"things-{i}", "scopes": ["read"]})
        doomed["/v1/keys/"] = make("keys", 8, lambda i: {"name": f"doomed-{i}", "scopes": ["read"]})
        make("queues", 1, lambda i: {"name": "leased", "lease": "12h", "event_types": ["leased"]})
        things["/v1/queues/"] = make("queues", 2, lambda i: {"name": f"things-{i}", "event_types": ["none"]})
        doomed["/v1/queues/"] = make("queues", 8, lambda i: {"name": f"doomed-{i}", "event_types": ["none"]})
        batch = [{"type": kind, "data": {"n": i}} for kind in ("held.a", "refused.a", "leased") for i in range(60)]
        things["/v1/events/"] = [one["id"] for one in self.ask("POST", "/v1/events/batch", {"events": batch})["data"]][:10]
        things["/v1/inbox/"] = [self.ask("POST", f"/in/{things['/v1/sources/'][0]}", {"n": 1})["id"]]
        things["/v1/incidents/"] = make("incidents", 2, lambda i: {"title": f"things-{i}", "text": "It is looked into."})
        while len(self.ask("GET", "/v1/dead-letters?limit=100")["data"]) < 60:
            pass  # each answer takes a moment; a server that delivers nothing ends this by the caller's patience
        dead = [one["id"] for one in self.ask("GET", "/v1/dead-letters?limit=100")["data"]]
        held = [one["id"] for one in self.ask("GET", f"/v1/endpoints/{paused[0]}/deliveries?limit=100")["data"]]
        things["/v1/deliveries/"] = [one for pair in zip(dead, held) for one in pair]
        things["/v1/replays/"] = [self.ask("POST", f"/v1/endpoints/{refusing[0]}/replay", {"rate": 0.01})["id"]]
        things["/v1/leases/"] = [one["meta"]["lease"] for one in self.ask("GET", "/v1/queues/leased/next?max=60")["data"]]
        things["/v1/tenants/"] = ["default"]
        parameters = {"/v1/tenants/": "tenant", "/v1/leases/": "lease", "/v1/queues/": "name", "/in/": "source"}
        return {"receiver": receiver + "/take", "things": things, "doomed": doomed,
                "paths": {prefix: parameters.get(prefix, "id") for prefix in things}}


def validator(tools, document, **_):
    ok, text = run(tools[0] / "openapi-spec-validator", document)
    return ok, "valid OpenAPI 3.1" if ok else text


def redocly(tools, document, **_):
    ok, text = run("npx", "--no-install", "redocly", "lint", document, "--config", HERE / "redocly.yaml", "--format=json",
                   cwd=tools[1], env={"REDOCLY_TELEMETRY": "off"})
    totals = json.JSONDecoder().raw_decode(text[text.index('{\n  "totals"'):])[0]["totals"]
    return ok and not any(totals.values()), f"{totals['errors']} errors, {totals['warnings']} warnings" if ok else text


def spectral(tools, document, **_):
    ok, text = run("npx", "--no-install", "spectral", "lint", document, "-r", HERE / "spectral.yaml", "--fail-severity=hint", cwd=tools[1])
    return ok, "no results" if ok else text


def schemathesis(tools, document, address, receiver, work, options):
    notes = work / "notes.jsonl"
    notes.touch()
    (work / "world.json").write_text(json.dumps(Server(address).things(receiver)))
    ok, text = run(
        tools[0] / "schemathesis", "--config-file", HERE / "schemathesis.toml", "run", address + "/openapi.json",
        "--header", f"Authorization: Bearer {KEY}", "--continue-on-failure", "--phases", "examples,coverage,fuzzing,stateful",
        "--max-examples", options.examples, "--seed", options.seed, "--report", "junit", "--report-junit-path", work / "report.xml",
        "--no-color", *(["--include-path-regex", options.path] if options.path else []), cwd=work, timeout=1800,
        env={"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1",
             "GRAPNEL_WORLD": str(work / "world.json"), "GRAPNEL_NOTES": str(notes)})
    (work / "schemathesis.log").write_text(text)
    explained = collections.Counter(one["rule"] for one in map(json.loads, notes.read_text().splitlines()) if one["kind"] == "explained")
    refused = [one for one in map(json.loads, notes.read_text().splitlines()) if one["kind"] == "refused"]
    generated = next((line.strip() for line in text.splitlines() if " generated, " in line), "")
    result = generated + "".join(f"\nexplained {n} times: {rule}" for rule, n in sorted(explained.items()))
    result += "".join(sorted({f"\nrefused: {one['operation']}: {e['pointer']} {e['detail']}" for one in refused for e in one["errors"]}))
    return ok, result if ok else result + "\n" + brief(work / "report.xml", text)


def brief(report, text):
    """The failures of a report, without the requests, some of which are megabytes."""
    try:
        found = [f"{case.get('name')}: {(failure.get('message') or '')[:600]}"
                 for case in xml.parse(report).iter("testcase") for failure in [*case.iter("failure"), *case.iter("error")]]
    except (OSError, xml.ParseError):
        found = []
    return "\n".join(found) or text[-4000:]


def python(tools, document, address, receiver, work, **_):
    ok, text = run(tools[0] / "openapi-python-client", "generate", "--path", document, "--output-path", work / "generated", "--meta", "none",
                   env={"PATH": f"{tools[0]}:{os.environ['PATH']}"})
    if not ok:
        return False, text
    return run(tools[0] / "python", "-B", HERE / "client.py", cwd=work,
               env={"GRAPNEL_SERVER": address, "GRAPNEL_KEY": KEY, "RECEIVER": receiver + "/take", "PYTHONPATH": str(work)}, timeout=60)


CHECKS = {"openapi-spec-validator": validator, "redocly": redocly, "spectral": spectral,
          "openapi-python-client": python, "schemathesis": schemathesis}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"of {', '.join(CHECKS)}; all if none is given")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--examples", default="30", help="of Schemathesis, for each operation")
    parser.add_argument("--path", help="a regular expression: Schemathesis asks only the operations whose path it finds")
    parser.add_argument("--keep", action="store_true", help="keep the directory with logs and generated clients")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends with it
    if unknown := set(options.tools) - set(CHECKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    cache = pathlib.Path(os.environ.get("INTEROP_CACHE") or pathlib.Path.home() / ".cache" / "grapnel-interop-openapi")
    cache.mkdir(parents=True, exist_ok=True)
    tools = install(cache)
    work = pathlib.Path(tempfile.mkdtemp(prefix="grapnel-interop-openapi-"))
    results = {}
    try:
        with serving(work) as (address, receiver):
            document = work / "openapi.json"
            with urllib.request.urlopen(address + "/openapi.json", timeout=30) as answer:
                document.write_bytes(answer.read())
            for name in options.tools or CHECKS:
                try:
                    results[name] = CHECKS[name](tools, document, address=address, receiver=receiver, work=work, options=options)
                except (subprocess.TimeoutExpired, urllib.error.URLError, ValueError, KeyError) as error:
                    results[name] = False, f"{type(error).__name__}: {error}"[:2000]
    finally:
        if options.keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    width = max(map(len, results))
    for name, (ok, text) in results.items():
        first, *more = (text.strip() or "-").splitlines()
        print(f"{name:{width}}  {'ok' if ok else 'FINDINGS':8}  {first}")
        for line in more:
            print(f"{'':{width}}            {line}")
    sys.exit(not all(ok for ok, _ in results.values()))


if __name__ == "__main__":
    main()
