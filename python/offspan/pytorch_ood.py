"""Every method of offspan as a detector of pytorch-ood: higher scores are more out-of-distribution there.

>>> from offspan.pytorch_ood import OffspanDetector                                     # doctest: +SKIP
>>> detector = OffspanDetector(network.features, "vim", head=network.fc)                # doctest: +SKIP
>>> detector.fit(train_loader)                                                          # doctest: +SKIP
>>> metrics = pytorch_ood.metrics.OODMetrics()                                          # doctest: +SKIP
>>> for x, y in test_loader:                                                            # doctest: +SKIP
...     metrics.update(detector(x), y)

Scores are as offspan gives them, of any size. Before version 0.4, pytorch-ood's metrics put such scores through a
sigmoid, which makes ties of large ones (``mahalanobis``).
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Union

try:
    import torch
    from pytorch_ood import api as _api
    from pytorch_ood.api import ModelNotSetException, RequiresFittingException
    from pytorch_ood.utils import extract_features
except ImportError as error:
    raise ImportError("offspan.pytorch_ood needs PyTorch and pytorch-ood: pip install torch pytorch-ood") from error

from torch import Tensor

import offspan

log = logging.getLogger(__name__)

# The base of detectors that take features; before version 0.4 there was one for all.
_Base: Any = getattr(_api, "FeaturesDetector", _api.Detector)

#: A method's name, a method, or a detector that is fitted already.
Method = Union[str, offspan.Method, offspan.Detector]


class OffspanDetector(_Base):
    """A method of offspan behind pytorch-ood's ``fit``, ``fit_features``, ``predict`` and ``predict_features``.

    Parameters
    ----------
    encoder : callable or None
        From inputs to features [B, m]. None if only ``fit_features`` and ``predict_features`` are used.
    method : str, offspan.Method or offspan.Detector
        As in :func:`offspan.methods`, by default ``auto``; a fitted detector needs no ``fit``.
    head : torch.nn.Linear, (weight, bias) or path, optional
        The network's last layer, for methods that use logits: pytorch-ood hands on features alone.
    **options
        The method's parameters, as in :func:`offspan.make`. Those named in ``hyperparameter_space`` can be searched
        with ``pytorch_ood.utils.GridSearch``.

    Examples
    --------
    >>> import torch
    >>> known = torch.randn(500, 3) @ torch.randn(3, 16)
    >>> detector = OffspanDetector(None, "pca", components=3).fit_features(known, torch.zeros(500))
    >>> bool(detector.predict_features(torch.randn(50, 16)).mean() > detector.predict_features(known).mean())
    True
    """

    requires_fit = True

    def __init__(
        self,
        encoder: Callable[[Tensor], Tensor] | None,
        method: Method = "auto",
        *,
        head: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not isinstance(method, str) and (options or head is not None):
            raise offspan.InputError(
                f"options and head belong to a method's name, and {type(method).__name__} has its own"
            )
        self.encoder = encoder
        self._detector: offspan.Detector | None = None
        self._method: offspan.Method | None = None
        if isinstance(method, offspan.Detector):
            self._detector = method
            self.requires_fit = False
        elif isinstance(method, offspan.Method):
            self._method = method
            self._detector = method.detector if method.is_fitted else None
        else:
            self._method = offspan.make(method, head=head, **options)

    @property
    def detector(self) -> offspan.Detector:
        """The fitted detector, to save or to inspect."""
        if self._detector is None:
            raise RequiresFittingException()
        return self._detector

    def fit(self, data_loader: Any) -> OffspanDetector:
        """Fit to the features that the encoder gives for a loader of ``(x, y)``; rows with y < 0 are left out."""
        if not self.requires_fit:
            return self
        if self.encoder is None:
            raise ModelNotSetException("fit() needs an encoder; without one, call fit_features()")
        device = getattr(self, "device", None)
        if device is None:
            device = "cpu"
            log.warning("No device set. Will use '%s'.", device)
        features, labels = extract_features(data_loader, self.encoder, device)
        return self.fit_features(features, labels)

    def fit_features(self, z: Tensor, labels: Tensor | None = None) -> OffspanDetector:
        """Fit to features [N, m] and class labels [N]; rows with a negative one are OoD rows, and left out.

        Every other row is fitted: pytorch-ood measures scores, so no rows are held out for a threshold.
        """
        if self._method is None:
            return self
        z = torch.as_tensor(z)
        if labels is not None:
            labels = torch.as_tensor(labels)
            known = labels >= 0
            z, labels = z[known.to(z.device)], labels[known].long()
        if len(z) == 0:
            raise ValueError("there are no in-distribution rows (labels of 0 or more) to fit to")
        self._detector = self._method.fit(z, labels=labels, hold_out=0.0).detector
        return self

    def predict(self, x: Tensor) -> Tensor:
        """Outlier scores [B] of inputs, which go through the encoder."""
        if self.encoder is None:
            raise ModelNotSetException("predict() needs an encoder; without one, call predict_features()")
        if self._detector is None:
            raise RequiresFittingException()
        device = getattr(self, "device", None)
        with torch.no_grad():
            return self.predict_features(self.encoder(x if device is None else x.to(device)))

    def predict_features(self, z: Tensor) -> Tensor:
        """Outlier scores [B] of features [B, m]: minus offspan's, in double precision where the device has it."""
        scores = torch.from_numpy(-self.detector.score(z))
        # Metal has no float64.
        return scores.to(z.device, torch.float32 if z.device.type == "mps" else torch.float64)

    def get_hyperparameters(self) -> dict[str, Any]:
        """The current values of what ``hyperparameter_space`` names."""
        options = {} if self._method is None else self._method.options
        return {name: options.get(name) for name in self.hyperparameter_space}

    def set_hyperparameters(self, **values: Any) -> OffspanDetector:
        """Change options of the method; it has to be fitted again afterwards."""
        unknown = sorted(set(values) - set(self.hyperparameter_space))
        if unknown or self._method is None:
            known = ", ".join(self.hyperparameter_space) if self._method is not None else ""
            raise ValueError(f"cannot set {', '.join(unknown or values)}; can be set: {known or 'nothing'}")
        method = self._method
        self._method = offspan.make(method.name, head=method.head, **{**method.options, **values})
        self._detector = None
        return self

    def __repr__(self) -> str:
        return f"OffspanDetector({self._detector or self._method!r})"
