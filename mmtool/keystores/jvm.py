"""Read JKS stores by a JVM, which copies their entries into a PKCS12 store in its memory.

The JVM runs py4j's gateway, which pyspark ships, so a JRE suffices. Stores and passwords travel over an authenticated
loopback connection: neither is on a disk or on a command line.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

from mmtool.errors import UsageError
from mmtool.java import java_binary, pyspark_jar

_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STOP_SECONDS = 5.0


class StorePasswordError(Exception):
    """The store's password is wrong or missing."""


class KeyPasswordError(Exception):
    """The private key's password is wrong or missing."""


class DamagedStoreError(Exception):
    """Java cannot read the store."""


class StoreJvm:
    """A JVM that starts at the first call and ends with `close`."""

    def __init__(self) -> None:
        self._gateway: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        gateway, process = self._gateway, self._process
        self._gateway = self._process = None
        if gateway is not None:
            with _silent_py4j():
                gateway.close()
            # else a Java object that is collected later dials the port, where another process may listen by then
            gateway._gateway_client.is_connected = False  # noqa: SLF001  `shutdown` fails if the JVM is lost
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()  # the gateway ends with it
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def trusted(self, content: bytes, store_type: str, password: str | None) -> tuple[bytes, str]:
        """A PKCS12 store of the certificates that Java trusts by this store, and its password.

        Those are all trusted certificates and, of a private key's chain, the first one.

        Raises:
            StorePasswordError, DamagedStoreError: Java cannot open the store.
            UsageError: There is no Java.
        """
        with self._java_errors():
            store = self._load(content, store_type, password)
            copy = self._new_store()
            for alias in _aliases(store):
                certificate = store.getCertificate(alias)
                if certificate is not None:
                    copy.setCertificateEntry(alias, certificate)
            return self._bytes_of(copy)

    def identity(
        self, content: bytes, store_type: str, password: str | None, key_password: str | None
    ) -> tuple[bytes, str]:
        """A PKCS12 store of the first private key with its chain, and its password.

        Raises:
            StorePasswordError, DamagedStoreError: Java cannot open the store.
            KeyPasswordError: Java cannot open the key.
            UsageError: There is no Java.
        """
        with self._java_errors():
            store = self._load(content, store_type, password)
            copy = self._new_store()
            for alias in _aliases(store):
                chain = store.getCertificateChain(alias) if store.isKeyEntry(alias) else None
                if chain is not None:
                    new_password = secrets.token_hex()
                    key = store.getKey(alias, self._chars(key_password))
                    copy.setKeyEntry(alias, key, self._chars(new_password), chain)
                    return self._bytes_of(copy, new_password)
            return self._bytes_of(copy)

    def _load(self, content: bytes, store_type: str, password: str | None) -> Any:
        store = self._new_store(store_type, empty=False)
        stream = self._jvm().java.io.ByteArrayInputStream(content)
        store.load(stream, self._chars(password))
        return store

    def _new_store(self, store_type: str = "PKCS12", *, empty: bool = True) -> Any:
        store = self._jvm().java.security.KeyStore.getInstance(store_type)
        if empty:
            store.load(None, None)
        return store

    def _bytes_of(self, store: Any, password: str = "") -> tuple[bytes, str]:
        password = password or secrets.token_hex()
        stream = self._jvm().java.io.ByteArrayOutputStream()
        store.store(stream, self._chars(password))
        return bytes(stream.toByteArray()), password

    def _chars(self, text: str | None) -> Any:
        """The text as a Java ``char[]``; py4j would turn a Java string into a Python one."""
        if text is None:
            return None
        builder = self._jvm().java.lang.StringBuilder(text)
        array = self._gateway.new_array(self._gateway.jvm.char, builder.length())
        builder.getChars(0, builder.length(), array, 0)
        return array

    def _jvm(self) -> Any:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        if self._gateway is not None:
            return self._gateway.jvm
        java, jar = java_binary(), pyspark_jar("py4j-*.jar")
        if jar is None:
            raise UsageError("pyspark's jars are missing", remedy="reinstall mmtool")
        try:
            port, token, self._process = launch_gateway(
                jarpath=str(jar),
                javaopts=list(_JVM),
                java_path=str(java),
                die_on_exit=True,
                enable_auth=True,
                return_proc=True,
            )
        except (
            OSError,
            ValueError,
        ) as error:  # no number where the port should be: the JVM said something else
            raise UsageError(
                f"{java} does not start",
                remedy="check `java -version`, JAVA_TOOL_OPTIONS and free memory",
                code="java",
            ) from error
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        return self._gateway.jvm

    @contextlib.contextmanager
    def _java_errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            with _silent_py4j():
                yield
        except Py4JJavaError as error:
            thrown = error.java_exception
            causes = {_class_name(thrown), _class_name(thrown.getCause())}
            at_load = _class_name(thrown) == "IOException"
        except (Py4JError, OSError) as error:  # the JVM ended: the store is too large for its memory
            self.close()  # the next store gets a new one
            raise DamagedStoreError from error
        else:
            return
        if at_load and "UnrecoverableKeyException" in causes:
            raise StorePasswordError
        if "UnrecoverableKeyException" in causes:
            raise KeyPasswordError
        raise DamagedStoreError


@contextlib.contextmanager
def _silent_py4j() -> Iterator[None]:
    """Silence py4j's logging: its debug lines contain passwords, and it logs errors that it raises as well.

    Some of these errors go through the root logger.
    """
    root, own = logging.getLogger(), logging.getLogger("py4j")
    nowhere, level = logging.NullHandler(), own.level
    root.addHandler(nowhere)  # without any, `logging.exception` would add one that writes to stderr
    root.addFilter(_is_not_of_py4j)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(_is_not_of_py4j)
        root.removeHandler(nowhere)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module not in {"java_gateway", "clientserver", "protocol"}


def _class_name(thrown: Any) -> str:
    return "" if thrown is None else str(thrown.getClass().getSimpleName())


def _aliases(store: Any) -> Iterator[str]:
    names = store.aliases()
    while names.hasMoreElements():
        yield names.nextElement()
