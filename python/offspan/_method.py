"""Methods by name: parameters, fit, score."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from . import _internal
from ._arrays import PathLike, Rows, as_array, as_extras, as_head, as_inputs, as_rows
from ._calibration import FitCheck
from ._detector import Detector
from ._explanation import Explanation
from ._internal import CONFIDENCE, KEEP
from ._progress import reporter
from .errors import InputError, NotFittedError


def methods() -> list[dict[str, Any]]:
    """List every method: name, what it does, what it needs, parameters with defaults.

    >>> import offspan
    >>> {method["name"]: method["parameters"] for method in offspan.methods()}["gradorth"]
    [{'name': 'explained_variance', 'default': '0.97'}]
    """
    listed: list[dict[str, Any]] = json.loads(_internal.catalogue())
    for method in listed:
        method["parameters"] = [_keyword(**parameter) for parameter in method["parameters"]]
    return listed


def _keyword(flag: str, default: str) -> dict[str, str]:
    """A parameter of the catalogue, which has it as a flag."""
    if flag == "--no-cosine":
        return {"name": "cosine", "default": "True: rows are scaled to unit length"}
    name = flag.lstrip("-").replace("-", "_")
    return {"name": name, "default": default.replace("--no-cosine", "cosine=False")}


def make(name: str = "auto", head: Any = None, **options: Any) -> Method:
    """Make a method by its name.

    Parameters
    ----------
    name
        As in :func:`methods`, or a score and steps joined by ``+`` (``knn+react``). ``auto``, the default, decides
        everything from the rows; it takes features alone, and is better with logits or the last layer.
    head
        The network's last layer, for methods that use it: ``(weight, bias)``, a ``torch.nn.Linear``, or a path.
    options
        The method's parameters: the flags of the command line with underscores (``neighbours=50``, ``gamma=2.0``,
        ``react="p90"``). ``cosine=False`` stands for ``--no-cosine``.

    Examples
    --------
    >>> import numpy as np, offspan
    >>> draw = np.random.default_rng(0)
    >>> features, weight = draw.normal(size=(400, 16)) + 1, draw.normal(size=(10, 16))
    >>> detector = offspan.make(head=(weight, np.zeros(10))).fit(features)
    >>> detector.name, detector.score(features[:2]).shape
    ('auto', (2,))
    >>> vim = offspan.make("vim", head=(weight, np.zeros(10)), components=4).fit(features)
    >>> vim.score(features[:2]).shape
    (2,)

    """
    return Method(name, head=head, **options)


class Method:
    """A method with its parameters; after :meth:`fit`, also a detector. Made by :func:`make`."""

    def __init__(self, name: str, head: Any = None, **options: Any) -> None:
        self.name = name
        self.head = as_head(head)
        self.options = options
        self._method = native_method(name, options)
        self._detector: Detector | None = None

    def fit(
        self,
        features: Rows,
        logits: Rows | None = None,
        labels: npt.ArrayLike | PathLike | None = None,
        *,
        extras: Mapping[str, npt.ArrayLike] | None = None,
        hold_out: float | None = None,
        keep: float = KEEP,
        confidence: float = CONFIDENCE,
        calibrate: Rows | tuple[Rows, Rows] | None = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 30.0,
        progress: bool | Callable[[str, int, int], object] = False,
    ) -> Method:
        """Fit to the features of in-distribution rows, in bounded memory.

        Parameters
        ----------
        features
            Rows: an array (float16, float32, float64; any order; a memory map is read bit by bit), Arrow data, or the
            path of an ``.npy``, ``.npz``, ``.safetensors`` or table file or of a pack folder, which may be larger than
            memory. Tables bring their ``logits`` and ``labels`` along (:func:`read_table`).
        logits, labels, extras
            What belongs to the same rows, where the method uses it.
        hold_out
            Share of the rows to keep out of the fit and set the threshold with; 0 for no threshold. By default 5 %, or
            more of few rows.
        keep, confidence
            The threshold keeps at least the share ``keep`` of in-distribution rows; which rows it is set with is
            chance, so that is true in at least the share ``confidence`` of all cases. 0.95 with 0.95 takes 59 rows.
        calibrate
            Other in-distribution rows to set the threshold with, or a pair of features and logits.
        checkpoint, checkpoint_every
            Where, and after how many seconds at least, to save progress; a fit that was killed goes on from there.
        progress
            True for a line on stderr, or a function that is told stage, steps done and steps in all.

        """
        if calibrate is None:
            pair = None
        elif isinstance(calibrate, tuple):
            if len(calibrate) != 2:
                raise InputError(f"calibrate: expected rows, or features and logits, got {len(calibrate)} arrays")
            pair = (as_rows(calibrate[0], "calibrate"), as_rows(calibrate[1], "the logits of calibrate"))
        else:
            pair = as_inputs(calibrate)[:2]
        given, logits, labels = as_inputs(features, logits, labels)
        with reporter(progress) as report:
            native = self._method_for(given).fit(
                given,
                logits=logits,
                labels=labels,
                extras=as_extras(extras),
                head=self.head,
                hold_out=hold_out,
                keep=keep,
                confidence=confidence,
                calibrate=pair,
                checkpoint=None if checkpoint is None else os.fspath(checkpoint),
                checkpoint_every=checkpoint_every,
                progress=report,
            )
        self._keep(Detector(native))
        return self

    def _method_for(self, features: Any) -> _internal.Method:
        """Give the native method; defaults may depend on the rows."""
        return self._method

    def _keep(self, detector: Detector) -> None:
        self._detector = detector

    def calibrate(
        self,
        features: Rows | None = None,
        logits: Rows | None = None,
        extras: Mapping[str, npt.ArrayLike] | None = None,
        *,
        keep: float | None = None,
        confidence: float | None = None,
    ) -> Method:
        """Set another threshold, with rows which the fit has not seen or none. See :meth:`Detector.calibrated`."""
        self._detector = self.detector.calibrated(features, logits, extras, keep=keep, confidence=confidence)
        return self

    @property
    def detector(self) -> Detector:
        """The fitted detector."""
        if self._detector is None:
            raise NotFittedError(f"{self.name} is not fitted yet; call `fit` first")
        return self._detector

    @property
    def is_fitted(self) -> bool:
        """Whether there is a detector."""
        return self._detector is not None

    @property
    def spec(self) -> dict[str, Any]:
        """The method with all its parameters."""
        return json.loads(self._method.spec())

    def score(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> npt.NDArray[np.float64]:
        """Score rows; higher is more in-distribution. See :meth:`Detector.score`."""
        return self.detector.score(features, logits, extras)

    def explain(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> Explanation:
        """Tell what each term of the score says of each row. See :meth:`Detector.explain`."""
        return self.detector.explain(features, logits, extras)

    def to_torch(self, dtype: Any = None) -> Any:
        """Give the detector as a ``torch.nn.Module``. See :meth:`Detector.to_torch`."""
        return self.detector.to_torch(dtype)

    def p_values(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> npt.NDArray[np.float64]:
        """Tell how unusual each row is: small for OoD rows. See :meth:`Detector.p_values`."""
        return self.detector.p_values(features, logits, extras)

    def predict(
        self,
        features: Rows,
        logits: Rows | None = None,
        extras: Mapping[str, npt.ArrayLike] | None = None,
        *,
        fdr: float | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Decide for each row whether it is in-distribution. See :meth:`Detector.predict`."""
        return self.detector.predict(features, logits, extras, fdr=fdr)

    def check(
        self, features: Rows, logits: Rows | None = None, extras: Mapping[str, npt.ArrayLike] | None = None
    ) -> FitCheck:
        """Test whether later in-distribution rows still fit the calibration. See :meth:`Detector.check`."""
        return self.detector.check(features, logits, extras)

    @property
    def threshold(self) -> float | None:
        """The detector's threshold."""
        return self.detector.threshold

    @property
    def calibration_scores(self) -> npt.NDArray[np.float64] | None:
        """Scores of the rows that the threshold was set with, ascending."""
        return self.detector.calibration_scores

    def save(self, path: PathLike, *, force: bool = False) -> None:
        """Save the fitted detector; a file of another kind is replaced only with ``force=True``."""
        self.detector.save(path, force=force)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_method"]  # Made again from the name and the options.
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._method = native_method(self.name, self.options)

    def __repr__(self) -> str:
        return f"offspan.make({', '.join([repr(self.name), *self._shown_options()])}){self._shown_state()}"

    def _shown_options(self) -> list[str]:
        """Options and head as in a call; arrays are left to the imagination."""
        simple = (str, int, float, bool, np.number)
        pairs = self.options.items()
        words = [f"{name}={repr(value) if isinstance(value, simple) else '…'}" for name, value in pairs]
        return words if self.head is None else [*words, "head=…"]

    def _shown_state(self) -> str:
        return "" if self.is_fitted else "  # not fitted"

    def _repr_html_(self) -> str:
        import html

        return self._detector._repr_html_() if self._detector else f"<code>{html.escape(repr(self))}</code>"


def native_method(name: str, options: Mapping[str, Any]) -> _internal.Method:
    """Options as Python has them, as the text that the command line takes."""
    texts: list[tuple[str, str]] = []
    rows = frequencies = None
    for option, value in options.items():
        if value is None:
            continue
        if option == "landmark_rows":
            rows = _row_numbers(value)
        elif option == "frequencies":
            omega, phases = value
            frequencies = (as_rows(omega, "frequencies"), np.ascontiguousarray(phases, dtype=np.float64))
        elif option == "cosine":
            texts.append(("no-cosine", _text("cosine", not value)))
        else:
            texts.append((option, _text(option, value)))
    return _internal.Method(name, texts, rows, frequencies)


def _row_numbers(value: Any) -> list[int]:
    rows = as_array(value, "landmark_rows")
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or (len(rows) and rows.min() < 0):
        raise InputError(
            "landmark_rows: expected row numbers from 0 on, as whole numbers in one dimension, got "
            f"an array of {rows.dtype} of shape {list(rows.shape)}"
        )
    return [int(row) for row in rows]


def _text(option: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        # 128.0 is a number of landmarks, too.
        return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
    if isinstance(value, (tuple, list)):
        return ",".join(_text(option, item) for item in value)
    if isinstance(value, str):
        return value
    raise InputError(f"{option}: expected a number, a text or a pair of them, got {type(value).__name__}")
