"""Attacks that still get through, and the part of issue 10 that stops them. To be emptied: nothing final is here."""

OPEN: dict[str, str] = {
    "deny_tests_their_folder": "tests",
}
