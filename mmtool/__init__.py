"""mmtool: Kafka topics replicated on Spark, consumer groups moved exactly.

Runs before every submodule, so it holds the version and nothing else.
"""

__version__ = "0.1.0"
