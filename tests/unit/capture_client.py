"""A client of the capture proxy, which listens on a socket alone."""

import httpx

from composer_replication.environments.code.harness.proxy import SOCKET

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


def client_of(proxy) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(proxy.folder / SOCKET)), base_url="http://proxy")
