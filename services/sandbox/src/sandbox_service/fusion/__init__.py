"""The door for SandboxFusion's users: /run_code, /submit and /v1/ping in its shapes and words (docs/sandboxfusion.md).

The shapes are those of github.com/bytedance/SandboxFusion (sandbox/server, sandbox/datasets) and of the clients that
speak to it: the PyPI package sandbox-fusion 0.3.7 and verl 0.9 (verl/utils/reward_score/sandbox_fusion).
"""
