import resource
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from ratchet_kit import cpu_time
from ratchet_kit.usage import HOUR, Prices, PriceTable, Usage, priced, total, usage_from_proto, usage_to_proto

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
TREE = f"""
import subprocess, sys
burn = {BURN!r}
subprocess.run([sys.executable, "-c", burn.format(1.2)], check=True)
last = "import subprocess, sys\\nsubprocess.run([sys.executable, '-c', " + repr(burn.format(1.0)) + "])\\n"
lives = subprocess.Popen(
    [sys.executable, "-c", last + burn.format(1.2) + "print('done', flush=True)\\nsys.stdin.read()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
)
lives.stdout.readline()
exec(burn.format(1.2))
print("done", flush=True)
sys.stdin.read()
lives.stdin.close()
lives.wait()
"""
USED = Usage(timedelta(hours=2), timedelta(hours=4), timedelta(minutes=30), 2_000_000, 1_000_000, timedelta(hours=1))
USED = replace(USED, gpu_busy_time=HOUR / 2, gpu_watched_time=HOUR * 1.5)
PRICES = Prices(
    currency="EUR",
    gpu_hour=2.5,
    cpu_hour=0.05,
    sandbox_hour=0.04,
    million_prompt_tokens=0.1,
    million_completion_tokens=0.4,
)


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.integration
def test_processor_time_is_what_the_kernel_accounts_for_a_tree_of_processes_ended_ones_included():
    before = of_children()
    with subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tree:
        assert tree.stdout is not None
        tree.stdout.readline()
        found = cpu_time.used_by(tree.pid).total_seconds()
        [child] = cpu_time.psutil.Process(tree.pid).children()
        less = cpu_time.used_by(tree.pid, without=[child.pid]).total_seconds()
        tree.communicate()
    accounted = of_children() - before
    assert found > 4.6
    assert found == pytest.approx(accounted, rel=0.02)
    assert less == pytest.approx(accounted - 2.2, abs=0.3), "without the child that lives, and its own"
    assert cpu_time.used_by(tree.pid) == timedelta(), "it is gone"


def test_a_cost_is_the_sum_of_what_was_used_at_its_prices():
    assert PRICES.cost(USED) == pytest.approx(5.0 + 0.2 + 0.02 + 0.2 + 0.4)
    assert priced(USED, None).cost is None
    assert priced(USED, PRICES).currency == "EUR"


def test_what_attempts_used_adds_up_and_one_before_there_were_prices_has_no_cost():
    both = total([USED, priced(USED, PRICES)])
    assert both.cpu_time == timedelta(hours=8)
    assert both.completion_tokens == 2_000_000
    assert (both.gpu_busy_time, both.gpu_watched_time) == (HOUR, 3 * HOUR)
    assert both.cost == pytest.approx(PRICES.cost(USED))
    assert total([USED, USED]).cost is None


def test_usage_of_twice_as_much_work_has_no_cost_of_the_prices_of_before():
    assert priced(USED, PRICES).times(0.5).times(2) == USED


def test_usage_goes_over_the_wire():
    for usage in (USED, priced(USED, PRICES), Usage(cost=0.0, gpu_busy_time=HOUR, gpu_watched_time=2 * HOUR)):
        assert usage_from_proto(usage_to_proto(usage)) == usage


def test_prices_are_read_from_json_or_a_file_of_it(tmp_path: Path):
    setting: TypeAdapter[Prices | None] = TypeAdapter(PriceTable)
    text = '{"currency": "EUR", "gpu_hour": 2.5}'
    file = tmp_path / "prices.json"
    file.write_text(text)
    assert setting.validate_python(text) == setting.validate_python(str(file)) == Prices(currency="EUR", gpu_hour=2.5)
    for wrong, said in (
        ("no/such/file", "must be prices as JSON"),
        ('{"gpu_hour": 2.5}', "currency"),
        ('{"currency": "EUR", "gpu_hours": 2.5}', "gpu_hours"),
        ('{"currency": "EUR", "gpu_hour": -1}', "greater than or equal to 0"),
    ):
        with pytest.raises(ValidationError, match=said):
            setting.validate_python(wrong)
