# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate: checked at the start, and read again when its files change."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path
from typing import Any, Callable

from ..config import ConfigError, Settings

log = logging.getLogger(__name__)

CarryOut = Callable[[Callable[[], None]], Any]


def _directly(act: Callable[[], None]) -> None:
    act()


def context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 or newer with the certificate and key of these files. Raises ConfigError."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    made.set_alpn_protocols(["http/1.1"])
    _load(made, certificate, key)
    return made


class Certificate:
    """A TLS context that follows its files: new connections get a renewed certificate, nobody notices the change."""

    def __init__(self, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self.context = context(certificate, key)
        self._seen = self._state()

    @classmethod
    def of(cls, settings: Settings) -> Certificate | None:
        """The one that `settings` name; None when they name none. Raises ConfigError."""
        return cls(settings.tls_certificate, settings.tls_key) if settings.tls_certificate else None

    def watch(self, seconds: float, carry_out: CarryOut = _directly) -> None:
        """Look at the files every so many seconds, in the background; for carry_out see renew()."""
        threading.Thread(target=self._watch, args=[seconds, carry_out], name="certificate", daemon=True).start()

    def renew(self, carry_out: CarryOut = _directly) -> bool:
        """Take the files' content over if they have changed and fit together; whether that was done.

        carry_out calls what it is given in the thread that makes the handshakes: one that began in another thread
        between the new certificate and its key would fail.
        """
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state
        try:
            context(*self._files)  # a pair that does not fit must not reach the context in use
        except ConfigError as error:
            log.warning("the renewed certificate is not used, the old one stays: %s", error)
            return False
        carry_out(self._take_over)
        return True

    def _take_over(self) -> None:
        try:
            _load(self.context, *self._files)
        except ConfigError as error:
            log.warning("the renewed certificate cannot be used: %s", error)
        else:
            log.info("the renewed certificate is in use")

    def _watch(self, seconds: float, carry_out: CarryOut) -> None:
        pause = threading.Event()
        while not pause.wait(seconds):
            self.renew(carry_out)

    def _state(self) -> tuple[object, ...]:
        found: list[object] = []
        for path in self._files:
            try:
                status = Path(path).stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
            except OSError as error:
                found.append(error.errno)
        return tuple(found)


def _load(made: ssl.SSLContext, certificate: str, key: str) -> None:
    for setting, path in (("tls_certificate", certificate), ("tls_key", key)):
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise ConfigError(
                f"server.{setting} = {path!r}: cannot be read: {error.strerror}; must be a PEM file"
            ) from error
    try:
        # A key with a passphrase would be asked for on the terminal otherwise.
        made.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or "not readable"
        raise ConfigError(
            f"server.tls_certificate = {certificate!r}, server.tls_key = {key!r}: cannot be used: "
            f"{' '.join(str(reason).split()).replace('_', ' ').lower()}; must be a certificate with its chain and its "
            "own key without passphrase, both PEM"
        ) from error
