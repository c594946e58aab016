"""A device's large payloads, in chunks: uploads leave as they are asked for, states come in by the
receiver.

An upload's chunks leave only while the coordinator wants them; once they are acknowledged, the
descriptor is published again, and the coordinator looks whether it has everything. The protocol is
told in `protofleet.mqtt.blobs.receiver`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent.protocol.actions import SendChunks
from protofleet import wire
from protofleet.mqtt.blobs.descriptor import BlobLimits, descriptor_message
from protofleet.mqtt.blobs.receiver import device_receiver
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob, Publisher
from protofleet.mqtt.topics import Topics


@dataclass(frozen=True)
class _Upload:
    """A payload that is going up; `asked` while chunks are on their way that the coordinator
    wants.
    """

    sender: BlobSender
    topic: str
    descriptor: bytes  # the message in the upload's place
    asked: bool = False

    @property
    def digest(self) -> str:
        return self.sender.blob.descriptor.digest


class Transfers:
    """What is under way in either direction. `packet` is what the broker takes, once the
    coordinator has told.
    """

    def __init__(
        self,
        topics: Topics,
        agent: str,
        folder: Path,
        publisher: Publisher,
        clock: Callable[[], float],
        largest: int,
    ) -> None:
        self.topics, self.agent, self.publisher = topics, agent, publisher
        self.packet = 0
        self.receiver = device_receiver(topics, agent, folder, publisher, clock, largest)
        self._largest = largest
        self._uploads: dict[tuple[str, int], _Upload] = {}  # by run and round

    def outgoing(self, run: str, round: int, message: bytes) -> bytes | None:
        """What goes on the upload's topic: the message, a descriptor in its place, or nothing while
        its chunks still go.
        """
        limits = BlobLimits(self.packet, largest=self._largest) if self.packet else BlobLimits()
        if limits.fits(message):
            return message
        upload = self._uploads.get((run, round))
        if upload is not None and not upload.sender.done:
            return None
        envelope, _ = wire.unseal(message)
        blob = OutgoingBlob(message, limits.chunk)
        digest, descriptor = blob.descriptor.digest, descriptor_message(envelope, blob.descriptor)
        sender = BlobSender(
            blob, lambda index: self.topics.upload_chunk(self.agent, digest, index), limits.window
        )
        topic = self.topics.upload(self.agent, round)
        self._uploads[run, round] = _Upload(sender, topic, descriptor)
        return descriptor

    def digest(self, run: str, round: int) -> str:
        """The name under which a large upload goes; empty for one that went whole."""
        upload = self._uploads.get((run, round))
        return "" if upload is None else upload.digest

    def send_chunks(self, request: SendChunks) -> None:
        """The coordinator misses these."""
        upload = self._uploads.get((request.run, request.round))
        # A request may be about other bytes: those of an earlier life's upload of the same round.
        if upload is not None and upload.digest == request.digest:
            last = upload.sender.blob.descriptor.chunks - 1
            upload.sender.want([(a, min(b, last)) for a, b in request.missing if a <= last])
            self._uploads[request.run, request.round] = replace(upload, asked=True)

    def settled(self, run: str, round: int) -> None:
        """Nobody needs its chunks any more."""
        self._uploads.pop((run, round), None)

    def push(self) -> None:
        """Do what is due in both directions."""
        for key, upload in list(self._uploads.items()):
            if upload.sender.pump(self.publisher) and upload.asked:
                # All that was asked for has left: does the coordinator miss anything else?
                self.publisher.publish(upload.topic, upload.descriptor)
                self._uploads[key] = replace(upload, asked=False)
        self.receiver.ask_due()
