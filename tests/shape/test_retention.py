"""What grows has an end: each setting that says for how long something is kept is obeyed by the service that has it."""

import ast
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
KEEPING = {"eval", "gateway", "rollout", "sandbox", "trainer"}


def package(service: str) -> Path:
    return SERVICES / service / "src" / f"{service}_service"


def wiring(service: str) -> ast.Module:
    """Where a service is put together."""
    files = (package(service) / name for name in ("main.py", "wiring.py"))
    return ast.parse("\n".join(file.read_text() for file in files if file.exists()))


def settings_of(service: str) -> set[str]:
    tree = ast.parse((package(service) / "settings.py").read_text())
    named = {ast.unparse(node.target) for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)}
    return {name for name in named if name.startswith("keep_")}


def parts(main: ast.Module, name: str) -> list[str]:
    """What is called, passed, assigned or returned under the name."""
    found: list[ast.AST] = []
    for node in ast.walk(main):
        match node:
            case ast.keyword(arg=arg) if arg == name:
                found.append(node.value)
            case ast.Assign(targets=[ast.Name(id=id)]) if id == name:
                found.append(node.value)
            case ast.FunctionDef(name=id, returns=returns) if id == name or "Background" in ast.unparse(
                returns or ast.Constant("")
            ):
                found += [one for one in ast.walk(node) if isinstance(one, ast.Return)]
    return [ast.unparse(one) for one in found]


@pytest.mark.parametrize("service", sorted(path.name for path in SERVICES.iterdir() if path.is_dir()))
def test_what_a_setting_says_is_kept_so_long_is_removed_then(service: str) -> None:
    settings = settings_of(service)
    assert bool(settings) == (service in KEEPING)
    if not settings:
        return
    main = wiring(service)
    calls = [node for node in ast.walk(main) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Kept"]
    assert {f"settings.{name}" for name in settings} == {ast.unparse(call.args[1]) for call in calls}
    assert any("tidy" in one for one in parts(main, "background")), "nobody runs it"


@pytest.mark.parametrize("service", ["rollout", "trainer"])
def test_the_logs_of_what_a_service_starts_are_bounded(service: str) -> None:
    main = wiring(service)
    assert any("log_files.bound" in one for one in parts(main, "background"))
