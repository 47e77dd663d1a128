"""Keys and signatures: what each scheme's secret is, and whether a signature is that of a message."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

MIN_STANDARD, MAX_SECRET = 8, 1024  # bytes
SIZES = {"sha1": 20, "sha256": 32, "sha512": 64}

# Says whether a signature is the key's over a message. The name is that of an algorithm: sha256, ed25519 and so on.
Matches = Callable[[str, bytes, bytes], bool]


def decode(text: str, encoding: str = "base64") -> bytes | None:
    """The bytes of a text in strict base64 or hexadecimal; None if it is not."""
    try:
        if encoding == "hex":
            return bytes.fromhex(text) if text.isascii() and not set(text) & set(" \t\r\n") else None
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def same(a: str, b: str) -> bool:
    """Compares in a time that does not depend on the texts."""
    return hmac.compare_digest(hashlib.sha256(a.encode()).digest(), hashlib.sha256(b.encode()).digest())


def prepare(proof: str, scheme: str, text: str) -> Matches:
    """Prepares a secret. The error never contains the text, because a text that looks like a typing error is mostly a secret."""
    if proof == "standard" or (proof == "gitlab" and text.startswith("whsec_")):
        if text.startswith("whpk_"):
            return _public("ed25519", decode(text.removeprefix("whpk_")), "whpk_ and the base64 of 32 bytes")
        if text.startswith("whsk_"):
            raise ValueError("is a private key (whsk_), which stays with its sender; give the public one (whpk_)")
        return _hmac(decode(text.removeprefix("whsec_")), "whsec_ and base64", MIN_STANDARD)
    if proof == "ed25519":
        return _public("ed25519", decode(text, "hex"), "64 hexadecimal digits")
    if proof == "ecdsa":
        return _public("ecdsa", decode(text), "the base64 of a public key of ECDSA on P-256")
    if proof == "adyen":
        return _hmac(decode(text, "hex"), "hexadecimal")
    for encoding in ("hex", "base64"):
        if scheme == "hmac" and text.startswith(encoding + ":"):
            return _hmac(decode(text.removeprefix(encoding + ":"), encoding), encoding)
    return _hmac(text.encode(), "text")


def _hmac(key: bytes | None, form: str, least: int = 1) -> Matches:
    if key is None:
        raise ValueError(f"is not {form}")
    if not least <= len(key) <= MAX_SECRET:
        raise ValueError(f"has {len(key)} bytes; a secret has {least} to {MAX_SECRET}")
    return lambda name, message, signature: name in SIZES and hmac.compare_digest(hmac.new(key, message, name).digest(), signature)


def _public(name: str, raw: bytes | None, form: str) -> Matches:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_der_public_key
    except ImportError as error:
        raise ImportError('public keys need the extra: pip install "grapnel[ed25519]"') from error
    extra: tuple[Any, ...] = ()
    key: Any = None
    try:
        if name == "ed25519" and raw is not None:
            key = ed25519.Ed25519PublicKey.from_public_bytes(raw)
        elif raw is not None:
            key, extra = load_der_public_key(raw), (ec.ECDSA(SHA256()),)
    except ValueError:
        pass
    if key is None or (extra and not isinstance(getattr(key, "curve", None), ec.SECP256R1)):
        raise ValueError(f"is not {form}")

    def matches(asked: str, message: bytes, signature: bytes) -> bool:
        try:
            if asked == name:
                key.verify(signature, message, *extra)
        except InvalidSignature:
            return False
        return asked == name

    return matches
