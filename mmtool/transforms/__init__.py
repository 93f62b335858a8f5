"""Functions that change records on the way: ready-made ones, and those of users, which run in a child process."""

from mmtool.transforms.ready_made import drop, hash_json, mask_json

__all__ = ["drop", "hash_json", "mask_json"]
