"""SFT: verl's trainer on Ray, driven from this process. Nothing is generated, so rollout-service is not asked."""

from trainer_service.job.overrides import sft_overrides
from trainer_service.job.problems import load
from trainer_service.job.runtime import compose_config
from trainer_service.job.session import Session
from trainer_service.verl_plugin.sft_trainer import RatchetSftTrainer


def run(session: Session) -> None:
    """Trains to the last step on the references of the run's problems."""
    latest = session.checkpoints.latest()
    resume_from = None if latest is None else session.checkpoints.folder(latest)
    problems = session.spec.problems
    examples = sum(bool(problem.references) for problem in load(problems.name, problems.limit))
    RatchetSftTrainer(
        compose_config("sft_trainer_engine", sft_overrides(session.job, resume_from, examples)), session
    ).fit()
