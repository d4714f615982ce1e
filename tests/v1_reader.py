"""A reader of version 1, written from its description alone: it knows nothing of this package and of later versions.

It stands for the `gym_recording` of 2018: manifests are globbed, every object whose `__type` is `ndarray` becomes the
array at `npyoff` of `npyfile`, all other keys are ignored.
"""

import json
import mmap
from glob import escape, glob
from os.path import basename, join

import numpy as np


def read_recording(directory):
    """The episodes of every trace: `{manifest: [{"observations", "actions", "rewards"}, ...]}`."""
    manifests = glob(join(escape(str(directory)), "openaigym.trace.*.manifest.json"))
    return {basename(manifest): read_trace(directory, manifest) for manifest in manifests}


def read_trace(directory, manifest):
    episodes = []
    with open(manifest) as file:
        batches = json.load(file)["batches"]
    for batch in batches:
        assert len(episodes) == batch["first"]
        with open(join(directory, batch["fn"])) as file:
            header = json.load(file, object_hook=lambda value: read_object(directory, value))
        assert len(header["episodes"]) == batch["len"]
        episodes += header["episodes"]
    return [{key: episode[key] for key in ("observations", "actions", "rewards")} for episode in episodes]


def read_object(directory, value):
    if value.get("__type") != "ndarray":
        return value
    with open(join(directory, value["npyfile"]), "rb") as file:
        blob = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.ndarray(value["shape"], np.dtype(value["dtype"]), blob, value["npyoff"], order=value["order"])
