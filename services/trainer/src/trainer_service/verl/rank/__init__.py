"""What makes verl 0.9.1 train here: on CPUs as well as GPUs, with generation in rollout-service, verdicts from sandbox.

verl imports this package in each of its processes, as the end of `import verl`, because the job's environment says
`VERL_USE_EXTERNAL_MODULES=trainer_service.verl.rank` (verl/__init__.py:49). Only what must be in place before
verl's own modules are used happens here; the trainers are imported by the job alone.
"""

import os

if os.environ.get("VERL_PLATFORM") == "cpu":
    from trainer_service.verl.rank import platform

    platform.register()

from trainer_service.verl import folders
from trainer_service.verl.rank import patches

folders.join()
patches.apply()
