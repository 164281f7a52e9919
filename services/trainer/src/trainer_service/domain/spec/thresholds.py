"""Where the guards of a run act, and why there. Each can be set in the spec; 0 turns its guard off.

A stop ends a run for good, so those that stop are set where no run is known to come back from. The others only say what
they see, and are set where it is worth a look.
"""

from dataclasses import dataclass

IN_A_ROW = 3
"""Steps for which something must last: one step is a draw of a few prompts, and three by chance are rare."""
FIRST = 10
"""Steps at a run's start that later ones are compared with: with the usual warm-up, still nearly the base."""
LATEST = 5
"""Steps that are taken together where shares of programs are compared."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    reward_limit: float = 1.0
    """Rewards beyond it, either way, are cut to it. They are from -1 to 1 (docs/rewards.md): it acts below 1."""
    kl_limit: float = 1.0
    """Stops: nats a token, from the base where there is a penalty, else from the policy that sampled. Updates within
    the clip range of 0.2 stay near 0.02; at 1 a token is on average e times as likely under the one as the other, and
    the loss, which takes the two to be close, no longer points anywhere."""
    entropy_floor: float = 0.02
    """Nats a token. For 60 tokens it is 1.2 nats: about three different completions of a prompt are left, so that
    groups of eight repeat themselves and advantages vanish."""
    gradient_spike: float = 10.0
    """Times the median norm of the steps before. Norms of a run that is well vary by a factor of two or three;
    max_grad_norm cuts the step, and Adam's moments remember it."""
    loss_rise: float = 2.0
    """Stops a run that learns from examples: times the mean loss of the first three steps, three steps in a row. A loss
    falls from its start; twice as much is that of a far worse model."""
    no_signal_share: float = 0.9
    """Of the groups of the last five steps, those whose completions all have one reward, and so no advantage. Above it
    a step learns from less than a tenth of what it has sampled."""
    length_drift: float = 2.0
    """Mean tokens of a completion against the first ten steps, more by this factor or fewer. Reasoning may well grow;
    padding out, and giving up, look the same from here."""
    truncated_share: float = 0.5
    """Of the completions, those that end at their limit. They are judged as they stand: above a half, it is the limit
    that is learned from."""
    repetition_rise: float = 0.2
    """Of the runs of four tokens in a completion, those that were in it before (seq-rep-4, arXiv:1908.04319), against
    the first ten steps. Code repeats itself, so that only the change says something."""
    tampered_share: float = 0.02
    """Of the programs of the last five steps, those that tried to forge their verdict. They earn nothing, and ordinary
    programs are taken for them hardly ever; a rising share is a policy that has found something."""
    tampered_limit: float = 0.25
    """Stops, at the same share: for every forgery that is seen there may be one that is paid."""
    verdict_shift: float = 0.3
    """How much more of the programs of the last five steps end in one way other than PASSED (TIME_LIMIT, say) than
    in the first ten. The noise of five steps of sixteen prompts is about 0.1."""
    reward_gap: float = 0.1
    """How much more the reward has risen in training than in validation, at the lower end of its interval. Tests that a
    wrong program passes look like this, and so does learning by heart: steps of 16 prompts tell 0.4 apart from 0.1."""
    second_hand_gap: float = 0.1
    """How much more of the programs that pass what is rewarded fail the tests that are not, than at the start, at the
    lower end of its interval. Programs that are nearly right fail some, too: only the change says something."""
    collapse_confidence: float = 0.9999
    """Stops when the whole interval of the difference to the base is below 0. A run is looked at hundreds of times, so
    that each look may be wrong once in ten thousand; from 0.41 to 0.00, 40 problems are enough."""
