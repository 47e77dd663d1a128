"""Reads /metrics with Prometheus' own library. Says how many families it found, and which have no help or no type."""
import json
import sys

from prometheus_client.parser import text_string_to_metric_families

families = list(text_string_to_metric_families(sys.stdin.read()))
odd = [f.name for f in families if not f.documentation or f.type in ("unknown", "untyped") or not f.samples]
json.dump({"families": len(families), "odd": odd}, sys.stdout)
