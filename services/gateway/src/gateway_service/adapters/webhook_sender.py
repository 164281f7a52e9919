"""Sends to webhooks over HTTP."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from http.cookiejar import DefaultCookiePolicy

import httpx

from ratchet_kit.errors import Unavailable

LIMIT = timedelta(seconds=20)
"""For one attempt, however slowly an endpoint answers."""


class HttpSender:
    """What the endpoint answers is not read: who makes webhooks learns nothing of what lies behind a URL but whether
    it takes them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        # httpx would keep the cookies of every answer, without end, and send them to the other webhooks of the host.
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    async def send(self, url: str, headers: Mapping[str, str], body: str) -> int:
        try:
            async with asyncio.timeout(LIMIT.total_seconds()):
                async with self._client.stream(
                    "POST", url, headers=headers, content=body.encode(), follow_redirects=False
                ) as response:
                    return response.status_code
        except TimeoutError as error:
            raise Unavailable(f"the endpoint did not answer in {LIMIT.total_seconds():g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"the endpoint could not be reached: {type(error).__name__}") from error
