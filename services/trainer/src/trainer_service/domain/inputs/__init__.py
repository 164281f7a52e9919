"""The inputs of a run: models, sets of problems, rewards and plug-ins, looked up by what a spec calls them."""
