"""Build and send mail by SMTP: one message, one connection."""

from __future__ import annotations

import re
import smtplib
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Literal

from perfci.model import PerfciError
from perfci.net.ssrf_safe_http import HostUnreachable

TIMEOUT_S = 10.0
"""For each answer of the mail server."""

RECIPIENT = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9.-]{1,253}")


@dataclass(frozen=True, slots=True)
class MailServer:
    """The SMTP server; its password comes from the environment alone."""

    host: str
    port: int = 587
    user: str = ""
    password: str = ""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = "perfci@localhost"


def build_mail_message(
    server: MailServer, to: str, subject: str, text: str, uid: str, sent_at: datetime
) -> EmailMessage:
    """Build a message with a stable ``Message-ID``, so that mail programs show a repeated one once."""
    message = EmailMessage()
    domain = server.sender.rpartition("@")[2] or "localhost"
    message["From"], message["To"] = server.sender, validate_mail_address(to)
    message["Subject"] = " ".join(subject.split())
    message["Date"], message["Message-ID"] = format_datetime(sent_at), f"<{uid}@{domain}>"
    message["X-Perfci-Delivery"] = uid
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no vacation program answers it
    message.set_content(text)
    return message


def send_mail(message: EmailMessage, server: MailServer) -> None:
    """Send one message; a permanent rejection and an unreachable server raise different errors."""
    if not server.host:
        raise PerfciError("No mail server is named: set [notify] smtp_host.")
    try:
        context = ssl.create_default_context()
        if server.tls == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=TIMEOUT_S, context=context
            )
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
        with smtp as connection:
            if server.tls == "starttls":
                # Without a context smtplib checks no certificate.
                connection.starttls(context=context)
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(message)
    except (smtplib.SMTPException, OSError) as error:
        raise HostUnreachable(
            f"The mail server {server.host} did not take it: {type(error).__name__} {error}"
        ) from error


def validate_mail_address(address: str) -> str:
    if not RECIPIENT.fullmatch(address):
        raise PerfciError(f"{address!r} is no mail address; expected for example perf@example.com.")
    return address
