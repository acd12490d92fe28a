"""The approval queue on the web: server-rendered pages and a small JSON API."""

from governance.web.app import WebSettings, create_app
from governance.web.serve import serve

__all__ = ["WebSettings", "create_app", "serve"]
