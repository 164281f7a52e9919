"""DPO: verl's SFT trainer on Ray over pairs. Completions are made for validation alone."""

from concurrent.futures import Future

from trainer_service.job.session import Session
from trainer_service.verl.config import base_is_validated, dpo_overrides
from trainer_service.verl.driver.dpo_trainer import RatchetDpoTrainer
from trainer_service.verl.runtime import compose_config, put_on_record


def run(session: Session, loading: Future[None] | None) -> None:
    """Trains to the last step. `loading` ends when the policy is there to take weights; None without validation."""
    resume_from = session.resume_from
    config = compose_config("sft_trainer_engine", dpo_overrides(session.job, resume_from))
    put_on_record(session, config)
    RatchetDpoTrainer(config, session, loading, base_is_validated(session.job, resume_from)).fit()
    if loading is not None:
        session.free_engine()
