#!/usr/bin/env python3
"""Writes what the clients take from the server's OpenAPI document; --check says which of it is out of date instead.

The document is internal/face/api/openapi.golden.json, which a test holds against the server. For TypeScript openapi-typescript
makes types of it. For Python this makes TypedDicts: the JSON stays what it is, so that a field that this version does not
know comes through, nothing is converted, and nothing but the standard library is needed, here or at run time. The blocking
Python client is the one for asyncio without async and await.
"""

import hashlib
import json
import keyword
import pathlib
import re
import subprocess
import sys
from typing import Any

SDK = pathlib.Path(__file__).resolve().parent
DOCUMENT = SDK.parent / "internal/face/api/openapi.golden.json"
PACKAGE = SDK / "python/src/grapnel/client"
WRITTEN = f"Written by make sdk from the OpenAPI document whose SHA-256 is {hashlib.sha256(DOCUMENT.read_bytes()).hexdigest()}."
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def typescript() -> dict[pathlib.Path, str]:
    tool = SDK / "typescript/node_modules/openapi-typescript/bin/cli.js"
    if not tool.exists():
        sys.exit("openapi-typescript is not installed: run npm ci in sdk/typescript")
    document = json.dumps(without_examples(json.loads(DOCUMENT.read_bytes())))
    made = subprocess.run(["node", tool], input=document, check=True, capture_output=True, text=True).stdout
    return {SDK / "typescript/src/client/schema.ts": f"// {WRITTEN}\n{made}"}


def without_examples(part: Any) -> Any:
    """A part of the document. Examples would be comments, longer than the types."""
    if isinstance(part, list):
        return [without_examples(one) for one in part]
    if isinstance(part, dict):
        return {name: without_examples(one) for name, one in part.items() if name != "example" or "schema" not in part}
    return part


def python() -> dict[pathlib.Path, str]:
    return {PACKAGE / "types.py": Types(json.loads(DOCUMENT.read_bytes())).text(), PACKAGE / "_sync.py": blocking()}


def blocking() -> str:
    """The client for asyncio without what makes it one."""
    text = (PACKAGE / "_async.py").read_text()
    text = re.sub(r"\b(async|await) ", "", text)
    text = re.sub(r"\bAsync(?=[A-Z])", "", text)
    text = re.sub(r"__a(enter|exit)__", r"__\1__", text)
    return re.sub(r'\A""".*?"""', '"""Written by make sdk from _async.py."""', text, count=1, flags=re.S)


class Types:
    """The schemas and the queries of a document as TypedDicts."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.classes: dict[str, str] = {}
        for name, schema in document["components"]["schemas"].items():
            if "properties" in schema:
                self.object(name, schema)
            else:
                self.add(name, f"{name} = {self.type(schema, name)}\n")
        for item in document["paths"].values():
            for operation in item.values():
                query = [p for p in operation.get("parameters", []) if p["in"] == "query"] if isinstance(operation, dict) else []
                if query:
                    properties = {p["name"]: {"description": p.get("description"), **p["schema"]} for p in query}
                    self.object(camel(operation["operationId"]) + "Query", {"properties": properties})

    def text(self) -> str:
        head = f'"""{WRITTEN}"""\n\nfrom __future__ import annotations\n\nfrom typing import Any, Literal, NotRequired, TypedDict\n'
        return "\n\n".join([head, *(self.classes[name] for name in sorted(self.classes))])

    def add(self, name: str, text: str) -> None:
        if name in self.classes:
            sys.exit(f"two types are called {name}")
        self.classes[name] = text

    def object(self, name: str, schema: dict[str, Any]) -> None:
        fields = {}
        for key, one in schema["properties"].items():
            kind = self.type(one, name + camel(key))
            fields[key] = kind if key in schema.get("required", []) else f"NotRequired[{kind}]"
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
            text = f"class {name}(TypedDict):\n"
            for key, kind in fields.items():
                doc = schema["properties"][key].get("description")
                text += f"    {key}: {kind}\n" + (f"    {json.dumps(doc, ensure_ascii=False)}\n" if doc else "")
            return self.add(name, text if fields else text + "    pass\n")
        body = "".join(f"    {json.dumps(key)}: {json.dumps(kind)},\n" for key, kind in fields.items())
        return self.add(name, f"{name} = TypedDict({json.dumps(name)}, {{\n{body}}})\n")

    def type(self, schema: dict[str, Any], name: str) -> str:
        """The type of a schema as an expression; an object in it becomes a class with this name."""
        if "$ref" in schema:
            return str(schema["$ref"]).rsplit("/", 1)[1]
        if "anyOf" in schema:
            options = [self.type(one, name + str(i)) for i, one in enumerate(schema["anyOf"])]
            return "Any" if "Any" in options else " | ".join(dict.fromkeys(options))
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values is not None:
            return f"Literal[{', '.join(repr(value) for value in values)}]"
        kinds = schema.get("type", [])
        made = [self.one(kind, schema, name) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        return " | ".join(made) or "Any"

    def one(self, kind: str, schema: dict[str, Any], name: str) -> str:
        if kind == "array":
            return f"list[{self.type(schema.get('items', {}), name + 'Item')}]"
        if kind != "object":
            return SIMPLE[kind]
        if "properties" in schema:
            self.object(name, schema)
            return name
        others = schema.get("additionalProperties")
        return f"dict[str, {self.type(others, name + 'Value') if isinstance(others, dict) else 'Any'}]"


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


def main() -> None:
    languages = {"typescript": typescript, "python": python}
    check = "--check" in sys.argv
    stale = []
    for name in [name for name in languages if name in sys.argv] or languages:
        for path, text in languages[name]().items():
            if check and (not path.exists() or path.read_text() != text):
                stale.append(str(path.relative_to(SDK.parent)))
            elif not check:
                path.write_text(text)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what the server's document says today; run make sdk")


if __name__ == "__main__":
    main()
