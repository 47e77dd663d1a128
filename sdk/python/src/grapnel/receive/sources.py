"""A sender of webhooks: how its requests are verified, and which event a request is."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from .canonical import Json, Members, Number, canonical, parse
from .delivery import Request
from .keys import SIZES, Matches, decode, prepare, same
from .outcome import Outcome, Refused
from .schemes import SCHEMES, Places, Scheme

TOLERANCE = 300.0
MAX_SIGNATURES = 10
MAX_ID = 512  # bytes; an index of PostgreSQL takes 2,704
FIELDS = {"body", "timestamp", "id", "url", "method", "path", "token"}  # of templates
SETTINGS = {
    "hmac": {"header", "algorithm", "encoding", "prefix", "signed", "timestamp_header", "id_header"},
    "api_key": {"header", "prefix", "id_header"},
    "basic": {"username", "id_header"},
    "none": {"id_header"},
}

# Makes the key of a request from its body.
KeyFromBody = Callable[[bytes], str]


def raw_body(body: bytes) -> str:
    """The key of a source without ids: SHA-256 of the bytes."""
    return hashlib.sha256(body).hexdigest()


def canonical_body(*ignore: str) -> KeyFromBody:
    """The key of a source without ids: SHA-256 of the canonical form without the ignored paths."""
    canonical(b"{}", ignore)  # a path that cannot be read fails here and not at a request
    return lambda body: hashlib.sha256(canonical(body, ignore)).hexdigest()


class Source:
    """One sender. ``name`` is a part of each key, so ids of two senders never meet.

    ``scheme`` is one of ``schemes.SCHEMES``; during a rotation give the old and the new secret. ``settings`` are those of
    the schemes hmac, api_key, basic and none: header, algorithm, encoding, prefix, signed (a template), timestamp_header,
    id_header, username. ``trust_unsigned_id`` takes an id that the signature does not cover: whoever has seen one signed
    request can repeat it under a new id.
    """

    def __init__(
        self,
        name: str,
        scheme: str,
        *secrets: str,
        tolerance: float = TOLERANCE,
        span: float | None = None,
        key_from_body: KeyFromBody | None = None,
        trust_unsigned_id: bool = False,
        public_url: str = "",
        **settings: str,
    ) -> None:
        if not name:
            raise ValueError("the source's name is empty; give the sender one, such as stripe")
        if scheme not in SCHEMES:
            raise ValueError(f"scheme {scheme!r}: use one of {', '.join(SCHEMES)}")
        if wrong := settings.keys() - SETTINGS.get(scheme, set()):
            raise ValueError(f"settings {', '.join(sorted(wrong))}: the scheme {scheme} has none of them")
        self.name, self.scheme = name, _with(SCHEMES[scheme], settings)
        self.key_from_body, self.tolerance, self.public_url = key_from_body, tolerance, public_url
        self.span = self.scheme.span if span is None else span
        self.username = settings.get("username", "")
        if self.scheme.proof != "none" and not 1 <= len(secrets) <= MAX_SIGNATURES:
            raise ValueError(f"{len(secrets)} secrets given; 1 to {MAX_SIGNATURES} can be accepted")
        if self.scheme.proof == "hmac" and not self.scheme.header and not self.scheme.signature:
            raise ValueError("header: name the one that has the signature")
        if not key_from_body and not trust_unsigned_id and (self.scheme.unsigned_id or not self.scheme.id):
            raise ValueError(
                f"the scheme {scheme} signs no event id: give key_from_body, or trust_unsigned_id "
                "if a repetition under another id does no harm"
            )
        self.secrets: list[tuple[str, Matches]] = []
        for number, text in enumerate(secrets, 1):
            try:
                self.secrets.append((text, prepare(self.scheme.proof, scheme, text)))
            except ValueError as error:
                raise ValueError(f"secret {number} {error}") from None  # the cause may have the secret
        # Headers that carry a secret and not a signature are never stored.
        self.secret_headers = (self.scheme.header,) if self.scheme.proof in ("token", "basic", "gitlab") else ()

    def event(self, request: Request, now: float) -> str:
        """Verifies a request and returns the id of its key, or raises Refused."""
        attempt = _Attempt(self, request, now)
        attempt.check()
        return self.key(attempt)

    def key(self, attempt: _Attempt) -> str:
        if self.key_from_body:
            try:
                event = self.key_from_body(attempt.request.body)
            except (ValueError, RecursionError) as error:
                raise Refused(Outcome.MALFORMED, "the body has no key") from error
        else:
            event, kind = attempt.find(self.scheme.id), attempt.find(self.scheme.type)
            event = f"{kind}:{event}" if event and kind else event
        if not event or len(event.encode("utf-8", "replace")) > MAX_ID or not event.isprintable():
            raise Refused(Outcome.MALFORMED, f"the event id has 1 to {MAX_ID} printable bytes")
        return event

    def key_of(self, request: Request) -> str:
        """The id of a request that was verified before."""
        return self.key(_Attempt(self, request, 0))


def StandardWebhooks(name: str, *secrets: str, **options: Any) -> Source:
    """A sender that signs by Standard Webhooks, with any of the secrets (``whsec_…``) or public keys (``whpk_…``)."""
    return Source(name, "standard", *secrets, **options)


def _with(scheme: Scheme, settings: dict[str, str]) -> Scheme:
    own: dict[str, Any] = {name: settings[name] for name in ("header", "prefix", "algorithm", "encoding", "signed") if name in settings}
    for field in re.findall(r"\{(\w*)\}", own.get("signed", "")):
        if field not in FIELDS:
            raise ValueError(f"signed: {{{field}}} is none of {', '.join(sorted(FIELDS))}")
    if own.get("algorithm", "sha256") not in SIZES or own.get("encoding", "hex") not in ("hex", "base64"):
        raise ValueError(f"algorithm and encoding: use one of {', '.join(SIZES)}, and hex or base64")
    if "timestamp_header" in settings:
        own["timestamp"] = ("header:" + settings["timestamp_header"],)
    if "id_header" in settings:
        own |= {"id": ("header:" + settings["id_header"],), "unsigned_id": "{id}" not in own.get("signed", "")}
    return replace(scheme, **own)


class _Attempt:
    """One request on its way through the checks."""

    def __init__(self, source: Source, request: Request, now: float) -> None:
        self.source, self.scheme, self.request, self.now = source, source.scheme, request, now

    def check(self) -> None:
        proof = self.scheme.proof
        if proof == "gitlab":
            signed = self.request.values("webhook-signature") and any(text.startswith("whsec_") for text, _ in self.source.secrets)
            proof = "standard" if signed else "token"
        if proof != "none" and not getattr(self, "_" + proof, self._signature)():
            raise Refused(Outcome.UNVERIFIED)

    # Parts of a request

    def _single(self, name: str) -> str:
        """The only value of a header. Of two it is unknown which one counts."""
        return self.request.header(name) or _malformed(f"header {name} is missing, or is there more than once")

    def _proof(self, name: str) -> str:
        """The header that proves the origin. Without it a request is unverified, whatever else it lacks."""
        if not any(self.request.values(name)):
            raise Refused(Outcome.UNVERIFIED)
        return self._single(name)

    @cached_property
    def _json(self) -> Json:
        return _parsed(self.request.body)

    @cached_property
    def _form(self) -> dict[str, list[str]]:
        kind = (self.request.header("content-type") or "").partition(";")[0].strip().lower()
        text = self.request.body.decode("utf-8", "replace") if kind == "application/x-www-form-urlencoded" else ""
        return parse_qs(text, keep_blank_values=True, max_num_fields=1000)

    def find(self, places: Places) -> str:
        return next((found for place in places if (found := self._at(place))), "")

    def _at(self, place: str) -> str:
        kind, _, path = place.partition(":")
        path, _, needs = path.partition("?")
        if kind == "header":
            return self.request.header(path) or ""
        if kind == "form":
            return self._form.get(path, [""])[0]
        document = self._json if kind == "body" else _parsed(self._form.get("payload", [""])[0].encode())
        return _scalar(_value(document, path)) if not needs or _value(document, needs) is not None else ""

    def _fresh(self, at: float | None) -> None:
        if at is None:
            _malformed("the signature's time is missing or cannot be read")
        elif abs(self.now - at) > self.source.tolerance:
            raise Refused(Outcome.EXPIRED)

    def _any(self, name: str, message: bytes, signatures: list[bytes]) -> bool:
        """Tries every key, even after a match, so that the time taken does not tell which one is right."""
        return any([matches(name, message, signature) for _, matches in self.source.secrets for signature in signatures])

    # Proofs

    def _standard(self) -> bool:
        prefix = self.scheme.header if self.scheme.proof == "standard" else "webhook-"
        if not self.request.values(prefix + "signature") and not self.request.values(prefix + "id"):
            prefix = "webhook-"
        entries = self._proof(prefix + "signature").split(" ")
        event, stamp = self._single(prefix + "id"), self._single(prefix + "timestamp")
        # A dot would let the id or the body stand for a part of the time; a second spelling of a time is a second message.
        if "." in event or len(event.encode()) > 256 or not re.fullmatch(r"0|[1-9][0-9]{0,11}", stamp, re.ASCII):
            _malformed("the id or the time cannot be read")
        if len([entry for entry in entries if entry]) > MAX_SIGNATURES:
            _malformed("there are too many signatures")
        self._fresh(int(stamp))
        message = f"{event}.{stamp}.".encode() + self.request.body
        found = False
        for entry in entries:
            version, _, text = entry.partition(",")
            name, size = {"v1": ("sha256", 32), "v1a": ("ed25519", 64)}.get(version, ("", -1))
            raw = decode(text)
            if raw is not None and len(raw) == size:
                found = self._any(name, message, [raw]) or found
        return found

    def _signature(self) -> bool:
        scheme = self.scheme
        stamp, texts = self._offered()
        if scheme.pairs or scheme.timestamp:
            self._fresh(parse_stamp(stamp))
        size = {"ed25519": 64, "ecdsa": None}.get(scheme.proof, SIZES[scheme.algorithm])
        given = [raw for text in texts if (raw := decode(text, scheme.encoding)) is not None and size in (None, len(raw))]
        fields = {"timestamp": stamp, "method": self.request.method, "token": self.find(scheme.token)}
        if "{id}" in scheme.signed:
            fields["id"] = self.find(scheme.id) or _malformed("the event id that is signed is missing")
        fields["path"] = _path(self.request.url)
        name = scheme.algorithm if scheme.proof == "hmac" else scheme.proof
        found = False
        for url in self._urls() if "{url}" in scheme.signed else [""]:
            parts = re.split(r"\{(\w+)\}", scheme.signed)
            values = [self.request.body if field == "body" else {**fields, "url": url}[field].encode() for field in parts[1::2]]
            message = b"".join(text.encode() + value for text, value in zip(parts[::2], [*values, b""], strict=True))
            found = self._any(name, message, given) or found
        return found

    _hmac = _ed25519 = _ecdsa = _signature

    def _offered(self) -> tuple[str, list[str]]:
        """The signed time and the signatures of a request."""
        scheme = self.scheme
        if scheme.signature:
            return self.find(scheme.timestamp), [self.find(scheme.signature)]
        value = self._proof(scheme.header)
        if scheme.pairs:
            separator, time, signature = scheme.pairs
            pairs = [pair.strip().partition("=") for pair in value.split(separator)]
            stamps, texts = ([text for name, _, text in pairs if name == wanted] for wanted in (time, signature))
            if len(stamps) != 1 or not 1 <= len(texts) <= MAX_SIGNATURES:
                raise Refused(Outcome.UNVERIFIED)
            return stamps[0], texts
        return self.find(scheme.timestamp), [value.removeprefix(scheme.prefix)] if value.startswith(scheme.prefix) else []

    def _token(self) -> bool:
        value, prefix = self._proof(self.scheme.header), self.scheme.prefix
        # A signing key of GitLab is never used as a token.
        tokens = [text for text, _ in self.source.secrets if self.scheme.proof != "gitlab" or not text.startswith("whsec_")]
        return any([same(value.removeprefix(prefix), text) for text in tokens]) and value.startswith(prefix)

    def _basic(self) -> bool:
        kind, _, encoded = self._proof("authorization").partition(" ")
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        named = same(name, self.source.username)
        return any([same(password, text) for text, _ in self.source.secrets]) and named and colon == ":" and kind.lower() == "basic"

    def _twilio(self) -> bool:
        """HMAC of the URL and a form's fields, sorted by name; of any other body the URL has the hash."""
        raw = decode(self._proof(self.scheme.header))
        settings = ",".join(self.request.values("x-twilio-webhooks-signature-settings"))
        named = re.findall(r"(?:^|,)\s*algorithm\s*=\s*([^,\s]+)", settings)
        name = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}.get(named[0].upper() if named else "HMAC_SHA1")
        if raw is None or name is None or len(named) > 1 or len(raw) != SIZES[name]:
            return False
        fields = ""
        if digest := parse_qs(urlsplit(self.request.url).query).get("bodySHA256", [""])[0]:
            if not same(digest.lower(), hashlib.sha256(self.request.body).hexdigest()):
                return False
        elif not self._form and self.request.body:
            return False
        else:
            fields = "".join(field + value for field in sorted(self._form) for value in sorted({*self._form[field]}))
        return any([self._any(name, (url + fields).encode(), [raw]) for url in self._urls()])

    def _adyen(self) -> bool:
        """HMAC of eight fields. Nothing else is signed, so a name that occurs twice and a colon in a field are refused."""
        items = _only(self._json, "notificationItems")
        if isinstance(items, Members) or not isinstance(items, list) or len(items) != 1:
            return False
        item = _only(cast("list[Json]", items)[0], "NotificationRequestItem")
        amount = _only(item, "amount")
        names = ("pspReference", "originalReference", "merchantAccountCode", "merchantReference")
        values = [_only(item, name) for name in names] + [_only(amount, name) for name in ("value", "currency")]
        values += [_only(item, name) for name in ("eventCode", "success")]
        texts = [str(value).lower() if isinstance(value, bool) else _scalar(value) for value in values]
        raw = decode(_scalar(_only(_only(item, "additionalData"), "hmacSignature")))
        if any(":" in text for number, text in enumerate(texts) if number != 3) or raw is None:
            return False
        return self._any("sha256", ":".join(texts).encode(), [raw])

    def _urls(self) -> list[str]:
        """The addresses to which the request may have been sent. Behind a proxy its scheme may be wrong, and providers
        differ in whether they name the port. Trying several is safe: only the owner of the secret can sign any of them."""
        public, parts, path = self.source.public_url, urlsplit(self.request.url), _path(self.request.url)
        bases = [f"https://{parts.netloc}{path}", f"http://{parts.netloc}{path}"]
        if public:
            whole = public.partition("?")[0] + "?" + parts.query if parts.query else public
            bases = [whole, public.rstrip("/") + path]
        return [*bases, *(_other_port(base) for base in bases)]


def _malformed(detail: str) -> str:
    raise Refused(Outcome.MALFORMED, detail)


def parse_stamp(text: str) -> float | None:
    """The time of a signature: seconds, milliseconds or microseconds by its length, or RFC 3339."""
    if re.fullmatch(r"[0-9]{1,16}", text, re.ASCII):
        return int(text) / (1 if len(text) <= 11 else 10**3 if len(text) <= 14 else 10**6)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.timestamp() if at.tzinfo else None


def _parsed(text: bytes) -> Json:
    try:
        return parse(text)
    except ValueError:
        return None


def _value(value: Json, path: str) -> Json:
    """The value at a path of names and indexes; of two members with one name the first."""
    for part in path.split("."):
        if isinstance(value, Members):
            value = next((member for name, member in value if name == part), None)
        elif isinstance(value, list):
            elements = cast("list[Json]", value)
            value = elements[int(part)] if part.isdigit() and int(part) < len(elements) else None
        else:
            return None
    return value


def _scalar(value: Json) -> str:
    """A text or the digits of a number; anything else names nothing."""
    return str(value) if isinstance(value, (str, Number)) else ""


def _only(value: Json, name: str) -> Json:
    """A member; the request is unverified if its name occurs twice, in whatever case."""
    found = [(each, member) for each, member in value if each.lower() == name.lower()] if isinstance(value, Members) else []
    if len(found) > 1:
        raise Refused(Outcome.UNVERIFIED)
    return found[0][1] if found and found[0][0] == name else None


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + ("?" + parts.query if parts.query else "")


def _other_port(address: str) -> str:
    """Adds the standard port to an address without one, and removes it from one that has it."""
    parts = urlsplit(address)
    host, colon, port = parts.netloc.rpartition(":")
    netloc = host if colon and port.isdigit() else f"{parts.netloc}:{'443' if parts.scheme == 'https' else '80'}"
    return address.replace(f"//{parts.netloc}", f"//{netloc}", 1)
