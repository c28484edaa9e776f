"""The bytes of one HTTP request as they arrive: whether a thread could answer it without waiting for more."""

from __future__ import annotations

import re

END_OF_HEAD = b"\r\n\r\n"
MAX_HEAD_BYTES = 65_536
"""The parser reads what is longer up to its own limits, and refuses it."""

MAX_CHUNK_LINE_BYTES = 8190
CHUNKING_BYTES = 65_536
"""What the framing of a chunked body may add to the largest one."""

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE)
EXPECTS_CONTINUE = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?", re.DOTALL)


class RequestBuffer:
    """Collects a request. It only finds its end: what is malformed is left to the parser, which says why."""

    def __init__(self, max_body_bytes: int, data: bytes = b"") -> None:
        self.data = bytearray()
        self.awaits_continue = False
        """Whether the client waits for ``100 Continue`` before it sends its body."""
        self._max_body_bytes = max_body_bytes
        self._body_start = 0  # until the head is complete
        self._is_refused = False
        self._end: int | None = None  # where the request ends, once that is known
        self._next_chunk: int | None = None  # where the next chunk of a chunked body begins
        self.add(data)

    def add(self, chunk: bytes) -> None:
        searched = max(0, len(self.data) - len(END_OF_HEAD))
        self.data += chunk
        if not self.has_head and (index := self.data.find(END_OF_HEAD, searched)) >= 0:
            self._read_head(index + len(END_OF_HEAD))
        if self._end is None and self._next_chunk is not None:
            self._follow_chunks(self._next_chunk)

    @property
    def has_head(self) -> bool:
        return self._body_start > 0

    @property
    def is_answerable(self) -> bool:
        """Whether all is there that an answer needs: the whole request, or enough of it to refuse it."""
        if not self.has_head:
            return len(self.data) > MAX_HEAD_BYTES
        if self._end is not None:
            return len(self.data) >= self._end
        return len(self.data) - self._body_start > self._max_body_bytes + CHUNKING_BYTES

    @property
    def is_whole(self) -> bool:
        """Whether its last byte is there, so that the next byte belongs to the next request."""
        return not self._is_refused and self._end is not None and len(self.data) >= self._end

    def _read_head(self, end: int) -> None:
        self._body_start = end
        head = bytes(self.data[:end])
        if CHUNKED.search(head):
            self._next_chunk = end
        else:
            length = CONTENT_LENGTH.search(head)
            body_bytes = int(length[1]) if length else 0
            self._is_refused = body_bytes > self._max_body_bytes
            self._end = end if self._is_refused else end + body_bytes
        self.awaits_continue = bool(EXPECTS_CONTINUE.search(head)) and not self.is_answerable

    def _follow_chunks(self, start: int) -> None:
        """Go from chunk to chunk as far as they are there (RFC 9112, section 7.1)."""
        while (line_end := self.data.find(b"\r\n", start)) >= 0:
            size = CHUNK_SIZE.fullmatch(self.data, start, line_end)
            if size is None:
                self._refuse(start)
                return
            if int(size[1], 16) == 0:
                trailer_end = self.data.find(END_OF_HEAD, line_end)
                if trailer_end >= 0:
                    self._end = trailer_end + len(END_OF_HEAD)
                break
            start = line_end + 2 + int(size[1], 16) + 2
        else:
            if len(self.data) - start > MAX_CHUNK_LINE_BYTES:
                self._refuse(start)
        self._next_chunk = start

    def _refuse(self, end: int) -> None:
        """Let a thread answer a body whose chunks are none."""
        self._end, self._is_refused = end, True
