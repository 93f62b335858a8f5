"""Convert Java's trust and key stores (JKS, PKCS12 and PEM, told apart by their content) to PEM text."""

from mmtool.keystores.store import Identity, StoreError, StoreFile, one_jvm, read_identity, read_trusted

__all__ = ["Identity", "StoreError", "StoreFile", "one_jvm", "read_identity", "read_trusted"]
