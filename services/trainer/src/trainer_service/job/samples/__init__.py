"""Samples: prompts drawn and limited, episodes played, groups rewarded, and what they told of a step."""
