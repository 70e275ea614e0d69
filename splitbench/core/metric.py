"""A metric is a contract: what it compares, its direction, its range, its version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor

from splitbench.core.component import Component
from splitbench.core.data import Field

_PLURAL = {"image": "images", "text": "texts", "tabular": "tables"}


@dataclass(frozen=True)
class Truth:
    """What is to be recovered, with everything known of the same samples.

    Inputs are as a network is given them: images (N, C, H, W) in [0, 1], token ids (N, L), tables (N, F). Labels are
    int64, (N,) or (N, A); membership is int64 (N,), 1 for a sample that was trained on and 0 for one that was not.
    """

    values: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # identity, gender, attributes, ...
    modality: str = "image"  # of the data, whatever the values are
    fields: tuple[Field, ...] = ()  # the columns, if the data is a table

    @classmethod
    def of(cls, values: Tensor, modality: str = "image") -> Truth:
        """Values without extras."""
        return cls(values, modality=modality)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Tensor) -> Truth:
        """The truth of some of the samples."""
        extras = {name: values[rows] for name, values in self.extras.items()}
        return Truth(self.values[rows], extras, self.modality, self.fields)


class Metric(Component):
    """One value per sample. The mean and its interval are the report's affair.

    A metric that needs a trained network (an embedder of faces, say) takes it as a file: a setting `weights: str = ""`
    which the class names in `reads`, so that the contents of the file are part of the metric's version; `applies` says
    so where the file is not given, and `check` tries the one that is.
    """

    version: ClassVar[int | str] = 1
    goal: ClassVar[str] = "inputs"  # inputs, labels, membership or attributes; labels also score the task itself
    modality: ClassVar[str | None] = None  # of the data it can be used on; None: any
    leaks_when: ClassVar[Literal["high", "low"]] = "high"  # for utility metrics read: good when
    pooled: ClassVar[bool] = False  # true: one value for all samples together
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    tolerance: ClassVar[float] = 0.02  # a smaller difference between two means is no difference
    on_request: ClassVar[bool] = False  # true: only where a recipe asks for it, not wherever it applies

    def check(self) -> None:
        """Raise a `SplitbenchError` for a file that cannot be used. Asked before anything is trained."""

    def applies(self, truth: Truth) -> str | None:
        """Why this metric cannot be used on such data, as a sentence; None if it can. Never raises."""
        if self.modality not in (None, truth.modality):
            return f"{type(self).__name__} compares {_PLURAL.get(str(self.modality), self.modality)}, not " + str(
                _PLURAL.get(truth.modality, truth.modality)
            )
        return None

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        """(N,) values, or a scalar if `pooled`."""
        raise NotImplementedError
