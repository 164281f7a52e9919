"""/docs: Swagger's page over /openapi.json, of files that this gateway has: nothing is loaded from elsewhere.

It has the console's origin, so its page is held to rules as the console's is. The script is Swagger's, as the package
fastapi-offline brings it, pinned in the lock file.
"""

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from gateway_service.rest import console

PATH = "/docs"
_RULES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
HEADERS: Mapping[str, str] = {**console.HEADERS, "Content-Security-Policy": "; ".join(_RULES)}
_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Ratchet's API</title>
    <link rel="icon" href="console/icon.svg" />
    <link rel="stylesheet" href="docs/files/swagger-ui.css" />
    <script src="docs/files/swagger-ui-bundle.js" defer></script>
    <script src="console/docs.js" defer></script>
  </head>
  <body>
    <div id="docs"></div>
  </body>
</html>
"""


def install(app: FastAPI) -> None:
    app.mount(f"{PATH}/files", StaticFiles(packages=[("fastapi_offline", "static")]))

    @app.get(PATH, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(_PAGE, headers=HEADERS)
