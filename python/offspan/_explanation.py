"""Why rows have the scores they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each term of a score says of rows, from :meth:`Detector.explain`.

    A row's score is the sum of weight · ln p over the terms. The terms with a small p-value and a large weight are
    why a row is out.
    """

    #: The share of each term in the score.
    weights: dict[str, float]
    #: For each term one p-value per row: how often an in-distribution row is as unusual by this term.
    p_values: dict[str, npt.NDArray[np.float64]]

    def to_dataframe(self) -> Any:
        """Give the p-values as a pandas DataFrame: one line per row, one column per term."""
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        return pd.DataFrame(self.p_values)
