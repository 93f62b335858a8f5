"""mmtool: mirrors Kafka topics on Spark, and moves consumer groups between clusters with exact offsets.

Runs before every submodule, so it holds the version and nothing else.
"""

__version__ = "0.1.0"
