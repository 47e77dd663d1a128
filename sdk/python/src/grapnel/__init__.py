"""Grapnel for Python: ``grapnel.receive`` takes webhooks, ``grapnel.client`` calls the server's API."""

__version__ = "0.1.0"
