"""The training job on verl: what Ray runs for one attempt of one run. Only this package imports verl, Ray or torch.

    __main__.py     one attempt from its start to its exit status; imports neither, but for the engine
    engine.py       connect, train, and what an error of Ray means
    config.py       a job's config as verl's settings; algorithms.py: what each algorithm adds to them
    environment.py  what every process of the job reads before any config
    metrics.py      verl's metrics under Ratchet's names
    runtime.py      Ray, and verl's config composed; ray_start.py: Ray's own start, wrapped
    driver/         in the process of the job: trainers, data sets, rollouts
    rank/           in every process of verl: the plugin that verl imports, the CPU platform, weights to rollout-service

This file stays empty of imports: verl imports `rank` at the end of its own import.
"""
