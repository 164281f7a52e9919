from collections.abc import Mapping
from typing import Any

import pytest
from fastapi import Request
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from gateway_service.rest.messages import from_dict, from_request, to_dict
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.errors import InvalidArgument
from ratchet_protos.http import Rule

STRING, BOOL, MESSAGE = (
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_BOOL,
    FieldDescriptorProto.TYPE_MESSAGE,
)
ONE, MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


def message(name: str, /, **fields: tuple[int, int]) -> DescriptorProto:
    made = DescriptorProto(name=name)
    for number, (field, (kind, label)) in enumerate(fields.items(), 1):
        type_name = ".test.Item" if kind == MESSAGE else None
        made.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)
    return made


file = FileDescriptorProto(name="test.proto", package="test", syntax="proto3")
file.message_type.extend(
    [
        message("Item", name=(STRING, ONE), colour=(STRING, ONE)),
        message("Wanted", item=(MESSAGE, ONE), tags=(STRING, MANY), draft=(BOOL, ONE)),
    ]
)
pool = DescriptorPool()
pool.Add(file)
WANTED = message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Wanted"))


async def read(rule: Rule, query: str = "", body: bytes = b"", path: Mapping[str, str] = {}) -> dict[str, Any]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    scope = {"type": "http", "method": rule.verb, "headers": [], "query_string": query.encode(), "path_params": path}
    return to_dict(await from_request(Request(scope, receive), rule, WANTED))


async def test_a_query_sets_fields_of_fields_lists_and_bools() -> None:
    values = await read(Rule("GET", "/items", ""), "item.name=a&tags=x&tags=y&draft=true")
    assert values == {"item": {"name": "a", "colour": ""}, "tags": ["x", "y"], "draft": True}


async def test_a_body_may_be_one_field_and_the_query_the_rest() -> None:
    rule = Rule("PATCH", "/items/{item.name}", "item")
    values = await read(rule, "draft=false&tags=x", b'{"colour": "red"}', {"item__name": "a"})
    assert values == {"item": {"name": "a", "colour": "red"}, "tags": ["x"], "draft": False}


@pytest.mark.parametrize(
    ("query", "field"),
    [("draft=maybe", "draft"), ("item.size=3", "item.size"), ("colour=red", "colour"), ("item.name=b", "item.name")],
)
async def test_names_the_field_at_fault(query: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await read(Rule("GET", "/items/{item.name}", ""), query, path={"item__name": "a"})
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize(
    ("spec", "field", "description"),
    [
        ({"steps": "many"}, "spec.steps", "must be a whole number such as 5"),
        ({"steps": 1.5}, "spec.steps", "must be a whole number such as 5"),
        ({"steps": [1]}, "spec.steps", "must be a whole number such as 5"),
        ({"steps": 2**31}, "spec.steps", "Value out of range: 2147483648"),
        (
            {"hyperparameters": {"learning_rate": "x"}},
            "spec.hyperparameters.learning_rate",
            "must be a number such as 0.5",
        ),
    ],
)
def test_what_is_no_number_is_told_what_one_is(spec: dict[str, Any], field: str, description: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        from_dict({"spec": spec}, trainer_pb2.CreateRunRequest)
    (violation,) = caught.value.violations
    assert (violation.field, violation.description) == (field, description)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"item": {"name": null}}', 'item.name is null, but the path says "a": leave it out'),
        (b'{"item": {"name": ["b"]}}', 'item.name is ["b"], but the path says "a": leave it out'),
        (b'{"item": null}', "item.name is in item, which must be an object, and is null"),
    ],
)
async def test_a_body_that_is_at_odds_with_the_path_is_refused_in_the_words_of_json(body: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await read(Rule("POST", "/items/{item.name}", "*"), "", body, {"item__name": "a"})
    assert caught.value.message == message
    assert [violation.field for violation in caught.value.violations] == ["item.name"]


async def test_a_body_nested_too_deeply_is_the_callers_fault() -> None:
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        await read(Rule("POST", "/items", "*"), "", b"[" * 100_000 + b"]" * 100_000)
