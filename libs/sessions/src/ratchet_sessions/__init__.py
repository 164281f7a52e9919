"""What programs said to models, token by token.

A `Session` is a graph of calls. `ratchet_sessions.door` opens an HTTP server for one episode, which any client of
OpenAI's or Anthropic's calls; `ratchet_sessions.doors` reads their requests and writes their answers, for the gateway
as well. Rendering is the engine's, by `ratchet_problems.rendering`: nothing here knows a tokenizer.
"""

from ratchet_sessions.session import Asked, Branch, Call, Failed, Origin, Path, Session, Why

__all__ = ["Asked", "Branch", "Call", "Failed", "Origin", "Path", "Session", "Why"]
