"""Processor time of a process and all that it started. Needs the extra `processes`."""

import math
import os
from collections.abc import Collection
from datetime import timedelta

import psutil


def used_by(pid: int | None = None, without: Collection[int] = ()) -> timedelta:
    """Processor time of the process (None: this one), its descendants, and those that ended and were waited for.

    `without`: descendants that are left out, with theirs. Zero for a process that is gone. A descendant whose parent
    ended first belongs to nobody, and is not seen.
    """
    try:
        return timedelta(seconds=_seconds(psutil.Process(pid or os.getpid()), frozenset(without)))
    except psutil.NoSuchProcess:
        return timedelta()


def born(pid: int | None = None) -> float:
    """Seconds from the machine's start to that of the process (None: this one): a later one with its pid has another.
    NaN for one that is gone."""
    try:
        since_epoch = psutil.Process(pid or os.getpid()).create_time()
    except psutil.NoSuchProcess:
        return math.nan
    since_boot: float = round(since_epoch - psutil.boot_time(), 2)
    return since_boot


def _seconds(process: psutil.Process, without: Collection[int]) -> float:
    # The parent first: a child that ends in between is left to the next look, and never counted twice.
    spent = process.cpu_times()
    seconds: float = spent.user + spent.system + spent.children_user + spent.children_system
    for child in process.children():
        if child.pid not in without:
            try:
                seconds += _seconds(child, without)
            except psutil.NoSuchProcess:
                continue
    return seconds
