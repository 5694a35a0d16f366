"""The pages: plain HTML, CSS and JavaScript of our own, served from the package.

No library is needed for them: the pictures are a few hundred lines of SVG, which is less to load and to
trust than a charting script of some megabytes. Nothing comes from elsewhere, so they work offline, and
the policy below forbids everything that is not served here.
"""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def router() -> APIRouter:
    """The files are public: they hold no data, all of which comes from the API, with its token."""
    routes = APIRouter(include_in_schema=False)
    files = {
        file.name: file.read_bytes()
        for file in (resources.files(__name__) / "static").iterdir()
        if file.name.rpartition(".")[2] in MEDIA_TYPES
    }

    @routes.get("/")
    def index() -> Response:
        return _answer("index.html", files["index.html"])

    @routes.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        return _answer(name, files[name])

    @routes.get("/favicon.ico")
    def icon() -> Response:
        return RedirectResponse("/static/icon.svg", 308)

    return routes


def _answer(name: str, content: bytes) -> Response:
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    media_type = f"{MEDIA_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    return Response(content, media_type=media_type, headers=headers)
