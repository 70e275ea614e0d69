from __future__ import annotations

from dataclasses import dataclass

from splitbench.core.defense import Defense


@dataclass(frozen=True)
class None_(Defense):  # noqa: N801, the name None is taken
    """No defense: smashed data, labels and gradients pass as they are. The undefended twin of every defended cell."""
