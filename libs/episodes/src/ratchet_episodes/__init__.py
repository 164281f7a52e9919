"""Episodes: what a program said to models (a session), where it worked (a workspace), and how that was judged (a task
folder's verdict).

episode = await run(workspaces, folder, Harness(("python", "/tmp/harness/agent.py"), files), {"": seat})
episode.judged.reward, episode.session.paths()
"""

from ratchet_episodes.harness import Episode, Harness, harness_of, run

__all__ = ["Episode", "Harness", "harness_of", "run"]
