"""mmtool: mirrors Kafka topics on Spark, and moves consumer groups between clusters with exact offsets.

Programs may import `mmtool.translation`, which is the public Python API (docs/reference/python-api.md); all else is
private. This file runs before every submodule, so it holds the version and nothing else.
"""

__version__ = "0.1.0"
