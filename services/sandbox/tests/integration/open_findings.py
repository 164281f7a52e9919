"""Attacks that still get through, and the part of issue 10 that stops them. To be emptied: nothing final is here."""

OPEN = {
    "check_class_for_a_method": "values",
    "check_class_for_a_value": "values",
    "check_class_for_an_entry": "values",
}
