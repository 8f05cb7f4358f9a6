"""The service as people see it: pages without a script, and the wall in front of everything.

app = FastAPI(...)                     # the JSON API
app.state.core = core
pages.install(app, core)               # routes, style, words for refusals; then the wall, outermost
"""

from shardwise.service.pages.installing import install

__all__ = ["install"]
