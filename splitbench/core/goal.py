"""What an attack recovers: its truth, the blind guesses, and the metric that ranks. Never loads torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ANY = "*"  # any modality that is not named


@dataclass(frozen=True)
class Goal:
    """One thing that an adversary may want.

    `worst` says how the worst case over several attacks is taken: sample by sample the attack that leaks most, or,
    where the ranking metric is one value for all samples, the attack that is best as a whole.
    """

    name: str
    recovers: str  # what is recovered, in words
    truth: str  # what a guess is compared with, in words
    ranks: Mapping[str, str]  # modality -> the metric that ranks and calibrates
    floors: tuple[str, ...]  # attacks that look at nothing
    units: Mapping[str, str]  # modality -> what one guess is about
    beside: Mapping[str, str]  # modality -> the floor that is mounted beside every attack
    worst: Literal["sample", "whole"] = "sample"
    blind: float = 0.0  # what the ranking metric gives a blind guess, where no floor was measured

    def ranking(self, modality: str) -> str:
        """The metric that ranks attacks and calibrates them."""
        try:
            return self.ranks.get(modality) or self.ranks[ANY]
        except KeyError:
            raise ValueError(f"nothing ranks attacks on {self.name} of {modality} data") from None

    def floor(self, modality: str) -> str:
        """The floor that is mounted beside every attack."""
        return self.beside.get(modality) or self.beside.get(ANY, "")

    def unit(self, modality: str) -> str:
        """What one guess is about: an image, a text, a row, or a sample."""
        return self.units.get(modality) or self.units.get(ANY, "sample")


GOALS: dict[str, Goal] = {
    goal.name: goal
    for goal in (
        # The private inputs, from what was sent about them. Floors: a black image, the mean of the auxiliary images,
        # their mean by class, the nearest of them, and a draw from the prior of the data.
        Goal(
            "inputs",
            "the inputs",
            "the private inputs that the messages are about",
            {"image": "ssim", "text": "token_accuracy", "tabular": "field_accuracy"},
            ("black", "mean_image", "class_mean", "nearest_auxiliary", "prior"),
            {"image": "image", "text": "text", "tabular": "row"},
            {"image": "mean_image", ANY: "prior"},
        ),
        # The labels of samples, where the protocol hides them. The floor answers the commonest label.
        Goal(
            "labels",
            "the labels",
            "the labels of the samples that the messages are about",
            {ANY: "accuracy"},
            ("majority",),
            {ANY: "sample"},
            {ANY: "majority"},
        ),
        # Whether a sample was in the training set. The floor tosses a coin. AUC and TPR at a fixed FPR are about all
        # samples together, so the worst case is the attack that is best as a whole.
        Goal(
            "membership",
            "membership in the training set",
            "whether each sample was trained on; non-members come from a disjoint pool",
            {ANY: "auc"},
            ("coin",),
            {ANY: "sample"},
            {ANY: "coin"},
            "whole",
            0.5,
        ),
        # Attributes of a sample that are not its label, such as those of a face. The floor answers the commonest value.
        Goal(
            "attributes",
            "attributes of the samples",
            "the attributes that the data set declares beside the labels",
            {ANY: "accuracy"},
            ("majority",),
            {ANY: "sample"},
            {ANY: "majority"},
        ),
    )
}
