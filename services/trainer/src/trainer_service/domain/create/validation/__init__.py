"""What is wrong with a complete spec: every fault, each with the path of its field in the spec.

spec.py             what is of no other: names, steps, resources, thresholds, plug-ins
data.py             problems, pairs, how they are put, and a curriculum over them
rewards.py          what answers earn, and what judges them
hyperparameters.py  each, beside the others, and beside what the references lead to
"""

from trainer_service.domain.create.validation.data import check_trials as check_trials
from trainer_service.domain.create.validation.spec import check as check
from trainer_service.domain.create.validation.spec import notices as notices
