"""Clients: which of Dask's clients a call asks."""

from __future__ import annotations

from distributed import Client, get_client


def chosen_client(client: Client | None) -> Client:
    """The client that was given, or Dask's current one.

    Raises
    ------
    TypeError
        If this runs in its event loop, which must not wait.
    """
    chosen = get_client() if client is None else client
    if chosen.asynchronous:
        raise TypeError(
            "client is asynchronous, Client(asynchronous=True), and cannot be waited for in its own event loop: use "
            "Client(), or call this in another thread, for example by asyncio.to_thread."
        )
    return chosen
