"""The client of a server elsewhere: the verbs of :class:`icefloe.service.client.Client` over REST.

``icefloe.Client("https://icefloe.example.com", token=…)`` makes one. It opens no database and no catalog.
"""

from __future__ import annotations

from icefloe.service.remote.client import RemoteClient

__all__ = ["RemoteClient"]
