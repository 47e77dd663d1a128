"""Signatures of Standard Webhooks: v1 (HMAC-SHA256) and v1a (Ed25519) over ``id.timestamp.body``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Any

MAX_SIGNATURES = 10
MAX_HEADER = 4096
LENGTHS = {"v1,": 32, "v1a,": 64}

# Says whether a signature of a version (v1, or v1a,) is the key's over a message.
Matcher = Callable[[str, bytes, bytes], bool]


def decode(text: str, what: str) -> bytes:
    """Strict base64. The error never contains the text, which is mostly a secret."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = None
    if raw is None or base64.b64encode(raw).decode() != text:
        raise ValueError(f"{what} is not standard base64")
    return raw


def matcher(secret: str, *, lenient: bool = False) -> Matcher:
    """Prepares a secret (``whsec_…``) or a public key (``whpk_…``). Lenient: any length, prefix or not."""
    if secret.startswith("whpk_"):
        public = _public(decode(secret.removeprefix("whpk_"), "the public key (whpk_)"))
        return lambda version, message, signature: version == "v1a," and public(message, signature)
    if secret.startswith("whsk_"):
        raise ValueError("a private key (whsk_) stays with its sender; give the public one (whpk_)")
    if not secret.startswith("whsec_") and not lenient:
        raise ValueError("a secret starts with whsec_ or whpk_")
    key = decode(secret.removeprefix("whsec_"), "the secret (whsec_)")
    if not (8 if lenient else 24) <= len(key) <= (1024 if lenient else 64):
        raise ValueError(f"a secret (whsec_) has 24 to 64 bytes, this one has {len(key)}")
    return lambda version, message, signature: (
        version == "v1," and hmac.compare_digest(hmac.new(key, message, hashlib.sha256).digest(), signature)
    )


def _public(raw: bytes) -> Callable[[bytes, bytes], bool]:
    if len(raw) != 32:
        raise ValueError(f"a public key (whpk_) has 32 bytes, this one has {len(raw)}")
    return ed25519(raw)


def ed25519(raw: bytes) -> Callable[[bytes, bytes], bool]:
    """Verifies Ed25519 with the extra ``grapnel[ed25519]``."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ImportError('keys of Ed25519 need the extra: pip install "grapnel[ed25519]"') from error
    key: Any = Ed25519PublicKey.from_public_bytes(raw)

    def verify(message: bytes, signature: bytes) -> bool:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return verify


def verify(matchers: Iterable[Matcher], event: str, stamp: str, body: bytes, header: str) -> bool:
    """Whether an entry of the header is a signature by one of the keys. Entries of other versions are skipped."""
    entries = header.split()
    if len(header) > MAX_HEADER or len(entries) > MAX_SIGNATURES:
        return False
    message = f"{event}.{stamp}.".encode() + body
    found = False
    for entry in entries:
        version, comma, text = entry.partition(",")
        version += comma
        try:
            raw = decode(text, "the signature")
        except ValueError:
            continue
        if len(raw) == LENGTHS.get(version):
            # Every key is tried, so the time taken does not tell which one matches.
            found = any([matches(version, message, raw) for matches in matchers]) or found
    return found
