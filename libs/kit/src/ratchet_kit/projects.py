"""Projects: teams on one platform that see nothing of one another.

What a project owns says so itself, so that whose a thing is takes no look-up, and gives nothing away:

    acme~coder       a name (of a model, a data set, a reward) of project acme
    run_01J...-acme  an id of project acme
    coder, run_01J.. of the platform's own project: its names every project may read, its ids none

Who calls stands in the context of the call, which goes from service to service with the request's id (client.py); a
worker takes it from the id of its work. Nobody is in it where the platform works for itself, or for its operator: then
everything is seen.
"""

import re
from contextlib import AbstractContextManager

from ratchet_kit import logs

DEFAULT = "default"
"""In the context: the platform's own project, whose things have no mark."""
_PROJECT = r"[a-z][a-z0-9]{0,19}"
ANOTHERS = "another project's"
PLATFORMS = "the platform's"
"""Instead of an id of the platform's own project."""
SHORTEST_ID = len("x_") + 26
MARK = rf"(?:{_PROJECT}~)?"
"""Regular expression of the mark of a name."""
_NAME = re.compile(rf"(?<![A-Za-z0-9._-])({_PROJECT})~")
_ID = re.compile(rf"(?<![a-z])[a-z]+_[0-9A-Z]{{26}}(?:-({_PROJECT})(?![a-z0-9]))?")


def is_name(text: str) -> bool:
    """True for the name of a project: 20 letters and digits at most, the first a letter."""
    return re.fullmatch(_PROJECT, text) is not None and text != DEFAULT


def current() -> str:
    """The project of the present call or work; empty: no one's, which sees everything."""
    return str(logs.context().get("project", ""))


def project_of(text: str) -> str:
    """The project whose mark a name, an id, or what holds one has; empty without one."""
    marked = _NAME.search(text) or _ID.search(text)
    return (marked[1] or "") if marked else ""


def owned_by(text: str, project: str) -> bool:
    """True if each name and id in the text is the project's."""
    own = "" if project == DEFAULT else project
    return all(mark == own for mark in _marks(text)) and (not own or bool(_marks(text)))


def seen_by(text: str, project: str) -> bool:
    """True if a project sees what the text refers to: its own things, and names of the platform's."""
    own = "" if project == DEFAULT else project
    return not project or all(mark == own for mark in _marks(text))


def is_seen(text: str) -> bool:
    """True if the present call may see it."""
    return seen_by(text, current())


def acting(project: str) -> AbstractContextManager[None]:
    """For a block: the project whose call or work it is."""
    return logs.bound(project=project)


def of_owner(text: str) -> AbstractContextManager[None]:
    """For a block: acts for the project of what the text refers to."""
    return acting(project_of(text) or DEFAULT)


def suffix() -> str:
    """The end of ids that are made now."""
    project = current()
    return "" if project in ("", DEFAULT) else f"-{project}"


def without_others(text: str, project: str) -> str:
    """The text; in place of a reference that the project does not see it says whose it was."""
    if seen_by(text, project):
        return text
    own = "" if project == DEFAULT else project

    def seen(match: re.Match[str]) -> str:
        mark = match[1] or ""
        return match[0] if mark == own else ANOTHERS if mark else PLATFORMS

    for pattern in (_NAME, _ID):
        text = re.sub(pattern.pattern + r"[A-Za-z0-9._@:-]*", seen, text)
    return text


def _marks(text: str) -> list[str]:
    """Each reply of the gateway is looked at text by text: most have neither."""
    names = _NAME.findall(text) if "~" in text else []
    return names + _ID.findall(text) if "_" in text and len(text) >= SHORTEST_ID else names
