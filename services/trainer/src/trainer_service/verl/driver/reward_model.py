"""A reward model of pairs: verl's SFT trainer on Ray, whose model scores texts. Nothing is generated."""

from trainer_service.job.session import Session
from trainer_service.verl.config import reward_model_overrides
from trainer_service.verl.driver.reward_model_trainer import RewardModelTrainer
from trainer_service.verl.runtime import compose_config, put_on_record


def run(session: Session) -> None:
    """Trains to the last step."""
    config = compose_config("sft_trainer_engine", reward_model_overrides(session.job, session.resume_from))
    put_on_record(session, config)
    RewardModelTrainer(config, session).fit()
