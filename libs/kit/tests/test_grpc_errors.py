from datetime import timedelta

import grpc
import pytest

from ratchet.common.v1 import failure_pb2
from ratchet_kit import errors, grpc_errors
from ratchet_kit.client import channel
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing import serving
from ratchet_testing.echo import adding, method

FAMILY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RatchetError)]


async def came_back(error: BaseException) -> errors.RatchetError:
    """What a client sees when a handler raises `error`."""

    async def handler(request, context):
        raise error

    async with serving(adding(unary_stream=handler)) as target, channel(target) as door:
        with pytest.raises(errors.RatchetError) as raised, rpc_errors():
            async for _ in method(door, "unary_stream")(b""):
                pass
        return raised.value


def test_every_error_has_a_code_of_its_own():
    members = set(FAMILY) - {errors.RatchetError}
    assert set(grpc_errors.CODES) == members
    assert len(set(grpc_errors.CODES.values())) == len(members)


def test_a_subclass_takes_the_code_of_its_base():
    class GroupTooSmall(errors.FailedPrecondition):
        pass

    assert grpc_errors.code_of(GroupTooSmall("x")) is grpc.StatusCode.FAILED_PRECONDITION


# Unavailable is sent again by the channel before it is given up: test_client has it.
SENT_ONCE = sorted(set(FAMILY) - {errors.RatchetError, errors.Internal, errors.Unavailable}, key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", SENT_ONCE)
async def test_an_error_comes_back_as_it_was_raised(kind):
    back = await came_back(kind("run run_1 is not there"))
    assert type(back) is kind
    assert back.message == "run run_1 is not there"


async def test_every_violation_comes_back():
    violations = [errors.FieldViolation("spec.steps", "must be positive"), errors.FieldViolation("spec.base", "é – ü")]
    back = await came_back(errors.InvalidArgument("the spec has 2 faults", violations))
    assert isinstance(back, errors.InvalidArgument)
    assert list(back.violations) == violations


@pytest.mark.parametrize("letter", ["x", "é", "\n"])
async def test_what_is_too_long_for_trailers_is_cut(letter):
    """A client that gets too much of it sees another code."""
    long = letter * 100_000
    back = await came_back(errors.InvalidArgument(long, [errors.FieldViolation(long, long)] * 1000))
    assert type(back) is errors.InvalidArgument
    assert back.message == letter * len(back.message[:-3]) + "..."
    assert back.violations
    many = [errors.FieldViolation(f"programs[{i}].entry_point", "no name") for i in range(1000)]
    back = await came_back(errors.InvalidArgument("many faults", many))
    assert isinstance(back, errors.InvalidArgument)
    assert list(back.violations) == many[: len(back.violations)]
    assert len(back.violations) > 20
    assert type(await came_back(errors.NotFound(long))) is errors.NotFound


async def test_the_retry_hint_comes_back():
    back = await came_back(errors.ResourceExhausted("full", retry_after=timedelta(seconds=1.5)))
    assert isinstance(back, errors.ResourceExhausted)
    assert back.retry_after == timedelta(seconds=1.5)


async def test_no_retry_hint_is_none():
    back = await came_back(errors.ResourceExhausted("full"))
    assert isinstance(back, errors.ResourceExhausted)
    assert back.retry_after is None


@pytest.mark.parametrize("error", [errors.Internal("secret"), KeyError("secret"), errors.RatchetError("secret")])
async def test_what_is_internal_tells_nothing(error):
    back = await came_back(error)
    assert type(back) is errors.Internal
    assert back.message == grpc_errors.INTERNAL_TEXT


def test_a_code_without_an_error_is_internal():
    class Unknown(grpc.RpcError):
        def code(self):
            return grpc.StatusCode.UNKNOWN

        def details(self):
            return "odd"

        def trailing_metadata(self):
            return (("grpc-status-details-bin", b"\xff not a status"),)

    back = grpc_errors.from_rpc_error(Unknown())
    assert type(back) is errors.Internal
    assert back.message == "odd"


async def test_an_end_while_messages_are_written_is_never_internal():
    async def refuse(messages, context):
        await anext(messages)
        raise errors.NotFound("gone")

    async def messages():
        for _ in range(50):
            yield bytes(100_000)

    kinds = set()
    async with serving(adding(stream_unary=refuse)) as target, channel(target) as door:
        for _ in range(300):
            with pytest.raises(errors.RatchetError) as caught, rpc_errors():
                await method(door, "stream_unary")(messages())
            kinds.add(caught.type)
    assert errors.NotFound in kinds
    assert kinds <= {errors.NotFound, errors.Unavailable}


def test_a_failure_goes_both_ways():
    for kind, code in grpc_errors.CODES.items():
        failure = errors.Failure.of(kind("it is so"))
        message = grpc_errors.failure_to_proto(failure)
        assert message.code == code.value[0]
        assert grpc_errors.failure_from_proto(message) == failure
    assert grpc_errors.failure_to_proto(None) is None
    assert grpc_errors.failure_from_proto(failure_pb2.Failure(code=99, message="x")).code == "INTERNAL"
