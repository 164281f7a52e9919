"""/console: the page for people. It is files only, and calls /api/v1 with its user's key as any other client does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

import gateway_service

FOLDER = Path(gateway_service.__file__).parent / "console"
_RULES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    # No text becomes HTML, whoever wrote it: what would parse it throws.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
POLICY = "; ".join(_RULES)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-cache",  # asked for again each time, and answered by 304
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def install(app: FastAPI) -> None:
    """Anybody may read its files: they hold nothing of the platform's. Who comes to the address alone is led there."""
    app.mount("/console", _Files())

    @app.get("/", include_in_schema=False)
    @app.get("/console", include_in_schema=False)
    async def lead() -> RedirectResponse:
        return RedirectResponse("console/")


class _Files(StaticFiles):
    def __init__(self) -> None:
        super().__init__(directory=FOLDER, html=True)

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers.update(HEADERS)
        return response
