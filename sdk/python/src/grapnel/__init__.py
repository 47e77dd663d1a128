"""Grapnel for Python: ``grapnel.receive`` takes webhooks, ``grapnel.client`` calls the server's API,
``grapnel.outbox`` publishes inside the application's own transaction.
"""

__version__ = "0.1.0"
