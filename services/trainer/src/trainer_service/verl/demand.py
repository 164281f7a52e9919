"""`python -m trainer_service.verl.demand '[{"CPU": 1, "GPU": 1}]'`: for which bundles Ray's autoscaler is to make room.

All of them at the same time, in place of those before. It holds when this process has ended.
"""

import json
import sys

import ray
from ray.autoscaler.sdk import request_resources


def main() -> None:
    ray.init(address="auto", log_to_driver=False)
    request_resources(bundles=json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
