import re

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, MethodDescriptor

from ratchet.common.v1 import access_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import gateway_pb2, key_pb2, release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.sandbox.v1 import batch_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_protos.http import Rule, required_scope, rules

FILES = (eval_pb2, gateway_pb2, key_pb2, release_pb2, registry_pb2, batch_pb2, trainer_pb2)
METHODS = [
    method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
]


def method(full_name: str) -> MethodDescriptor:
    return descriptor_pool.Default().FindMethodByName(full_name)


def test_reads_verb_path_and_body() -> None:
    assert rules(method("ratchet.trainer.v1.TrainerService.CreateRun")) == (Rule("POST", "/api/v1/runs", "*"),)
    assert rules(method("ratchet.gateway.v1.KeyService.RevokeKey")) == (Rule("DELETE", "/api/v1/keys/{id}", ""),)


def test_reads_additional_bindings() -> None:
    by_number, by_alias = rules(method("ratchet.registry.v1.RegistryService.GetVersion"))
    assert by_number == Rule("GET", "/api/v1/models/{model}/versions/{number}", "")
    assert by_alias.variables == ("model", "alias")


def test_reads_nested_variables() -> None:
    (rule,) = rules(method("ratchet.registry.v1.RegistryService.CreateGate"))
    assert rule.variables == ("candidate.model",)


def test_an_rpc_without_a_rule_has_none() -> None:
    assert rules(method("ratchet.gateway.v1.GatewayService.Complete")) == ()


def test_scopes() -> None:
    assert required_scope(method("ratchet.gateway.v1.GatewayService.Complete")) == access_pb2.SCOPE_INFERENCE
    assert required_scope(method("ratchet.gateway.v1.KeyService.CreateKey")) == access_pb2.SCOPE_ADMIN


@pytest.mark.parametrize("rpc", METHODS, ids=lambda rpc: rpc.full_name)
def test_every_variable_is_a_field_of_the_request(rpc: MethodDescriptor) -> None:
    for rule in rules(rpc):
        assert re.fullmatch(r"/api/v1(/[a-z-]+|/{[\w.]+})+", rule.path)
        assert rule.body in ("", "*") or rule.body in rpc.input_type.fields_by_name
        for variable in rule.variables:
            found: Descriptor = rpc.input_type
            for name in variable.split("."):
                field = found.fields_by_name[name]
                found = field.message_type


def test_no_two_rpcs_share_a_route() -> None:
    routes = [(rule.verb, re.sub(r"{[\w.]+}", "{}", rule.path)) for rpc in METHODS for rule in rules(rpc)]
    assert len(routes) == len(set(routes))
