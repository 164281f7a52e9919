"""SFT: verl's trainer on Ray, driven from this process. Nothing is generated, so rollout-service is not asked."""

from trainer_service.job.session import Session
from trainer_service.verl.config import sft_overrides
from trainer_service.verl.driver.sft_trainer import RatchetSftTrainer
from trainer_service.verl.runtime import compose_config, put_on_record


def run(session: Session) -> None:
    """Trains to the last step on the references of the run's problems."""
    overrides = sft_overrides(session.job, session.resume_from)
    config = compose_config("sft_trainer_engine", overrides)
    put_on_record(session, config)
    RatchetSftTrainer(config, session).fit()
