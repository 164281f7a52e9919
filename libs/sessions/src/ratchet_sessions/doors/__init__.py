"""The APIs of OpenAI and Anthropic: requests read, answers written. The gateway and an episode's door speak them."""
