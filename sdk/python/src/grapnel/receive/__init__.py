"""Receives webhooks so that each event takes effect once: verify, claim, handle, commit, and only then answer."""

from .canonical import canonical, idempotency_key
from .delivery import Delivery, Request
from .kit import Observation, Options
from .outcome import Answer, Gone, Outcome, Parked, Permanent, Retryable, RetryAfter, Stale
from .receiver import AsyncHook, AsyncInboxHook, AsyncReceiver, Hook, InboxHook, Receiver
from .sources import Source, StandardWebhooks, canonical_body, raw_body
from .sql import DjangoStore, MemoryStore, SqlStore
from .store import Letter, LostClaim, NotDead

__all__ = [
    "Answer",
    "AsyncHook",
    "AsyncInboxHook",
    "AsyncReceiver",
    "Delivery",
    "DjangoStore",
    "Gone",
    "Hook",
    "InboxHook",
    "Letter",
    "LostClaim",
    "MemoryStore",
    "NotDead",
    "Observation",
    "Options",
    "Outcome",
    "Parked",
    "Permanent",
    "Receiver",
    "Request",
    "RetryAfter",
    "Retryable",
    "Source",
    "SqlStore",
    "Stale",
    "StandardWebhooks",
    "canonical",
    "canonical_body",
    "idempotency_key",
    "raw_body",
]
