"""Receives webhooks so that each event takes effect once: verify, claim, handle, commit, and only then answer."""
