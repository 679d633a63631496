"""Sums of the app's own metrics over all processes of the service, so that any of them can be asked for the totals.

Each process publishes its figures every second and before it is asked for the sums. Only published figures are summed, so a counter
that one process has reported never falls when the next one is asked. The counters of a process that has ended are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from resources.logging import logger
from resources.servers.shared import Shared

_BYTES = 256 * 1024
"""Room for the figures of a process, which take some 20 kB."""
_LENGTH_BYTES = 4

log = logger("serving")

Labels = tuple[tuple[str, str], ...]


class Sample(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: Labels
    value: float


class MetricFamily(msgspec.Struct, frozen=True, array_like=True):
    name: str
    text: str
    kind: str
    samples: list[Sample]


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """The figures of one process; `searched_at` is the time of its latest search."""

    families: list[MetricFamily] = []
    searched_at: float = 0.0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Figures)


def figures(registry: CollectorRegistry, searched_at: float) -> Figures:
    """Return what a registry holds now."""
    families = [
        MetricFamily(
            metric.name,
            metric.documentation,
            metric.type,
            [Sample(one.name, tuple(sorted(one.labels.items())), one.value) for one in metric.samples],
        )
        for metric in registry.collect()
    ]
    return Figures(families, searched_at)


def summed(parts: Sequence[Figures], latest: str) -> list[MetricFamily]:
    """Return the sums by family and labels. `latest` is a gauge that is not summed: that of the latest search is taken.

    A `_created` time is the earliest.
    """
    found: dict[str, tuple[MetricFamily, dict[tuple[str, Labels], float]]] = {}
    for part in sorted(parts, key=lambda one: one.searched_at):
        for family in part.families:
            _, sums = found.setdefault(family.name, (family, {}))
            for sample in family.samples:
                key = (sample.name, sample.labels)
                before = sums.get(key)
                if before is None or family.name == latest:
                    sums[key] = sample.value
                elif sample.name.endswith("_created"):
                    sums[key] = min(before, sample.value)
                else:
                    sums[key] = before + sample.value
    return [
        MetricFamily(family.name, family.text, family.kind, [Sample(*key, value) for key, value in sums.items()])
        for family, sums in found.values()
    ]


class Sums:
    """The published figures of all processes, and the counters of those that have ended."""

    def __init__(self, shared: Shared) -> None:
        self._worker, self._workers = shared.worker, shared.workers
        self._region = shared.region("metrics", (shared.workers + 1) * _BYTES)
        shared.on_clear(self._clear)

    def publish(self, mine: Figures) -> None:
        self._write(self._worker, mine)

    def parts(self) -> list[Figures]:
        """Return the figures of each process, and last those of processes that have ended."""
        with self._region:
            return [self._read(number) for number in range(self._workers + 1)]

    def _read(self, number: int) -> Figures:
        at = number * _BYTES
        memory = self._region.memory
        length = int.from_bytes(memory[at : at + _LENGTH_BYTES], "little")
        at += _LENGTH_BYTES
        return _decoder.decode(memory[at : at + length]) if length else Figures()

    def _write(self, number: int, content: Figures) -> None:
        encoded = _encoder.encode(content)
        if len(encoded) > _BYTES - _LENGTH_BYTES:
            log.warning("metrics_too_large", bytes=len(encoded))
            return
        with self._region:
            length = slice(number * _BYTES, number * _BYTES + _LENGTH_BYTES)
            self._region.memory[length] = bytes(_LENGTH_BYTES)  # nothing, should this process be killed meanwhile
            self._region.memory[length.stop : length.stop + len(encoded)] = encoded
            self._region.memory[length] = len(encoded).to_bytes(_LENGTH_BYTES, "little")

    def _clear(self, worker: int) -> None:
        parts = self.parts()
        ended = summed([parts[-1], parts[worker]], "")
        self._write(self._workers, Figures([family for family in ended if family.kind != "gauge"]))
        self._write(worker, Figures())


class Collected:
    """Families in the form that Prometheus's client renders."""

    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        for family in self._families:
            metric = Metric(family.name, family.text, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, dict(sample.labels), sample.value)
            yield metric
