"""Server-sent events, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_MESSAGE_CHARS = 64 * 1_048_576


@dataclass(slots=True)
class Message:
    """One event of a stream."""

    id: str | None = None
    event: str | None = None
    data: str = ""


@dataclass(slots=True)
class MessageReader:
    """Collects lines until an empty one ends a message."""

    _message: Message = field(default_factory=Message)
    _data: list[str] = field(default_factory=list)
    _chars: int = 0

    def push(self, line: str) -> Message | None:
        """Returns the message that the line ends."""
        if line == "":
            message, data = self._message, self._data
            self._message, self._data, self._chars = Message(), [], 0
            message.data = "\n".join(data)
            return message if data else None
        self._chars += len(line)
        if self._chars > MAX_MESSAGE_CHARS:
            raise ValueError("A message of the event stream is too long")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._message.id = value
        elif name == "event":
            self._message.event = value
        elif name == "data":
            self._data.append(value)
        return None
