"""The HTML of detectors and evaluations: right, whole, and harmless."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pytest

import offspan
from offspan._html import _round_ticks, _shares_in_bins, _threshold_that_keeps, detector_html, evaluation_html

THRESHOLD = {
    "value": -0.25,
    "keep": 0.95,
    "confidence": 0.9,
    "expected_share": 0.97211,
    "share_interval": [0.9489, 0.9885],
    "rows": 250,
    "rank": 7,
    "source": "held-out",
}


def kernel_spec(**changes):
    spec = {
        "family": "kpca",
        "kernel": {"name": "gaussian", "gamma": 1.5},
        "cosine": True,
        "map": {"kind": "nystrom", "landmarks": 1024, "sampling": "uniform"},
        "residual": "complete",
    }
    return {**spec, **changes}


def kernel_results(**changes):
    results = {"family": "kpca", "components": 3, "dimensions": 10, "explained_variance": 0.8, "clip": None}
    return {**results, **changes}


def information(spec=None, results=None, **changes):
    info = {
        "method": "kpca-nys",
        "spec": spec or kernel_spec(),
        "results": results or kernel_results(),
        "training": {"rows": 4750, "width": 342},
        "threshold": THRESHOLD,
    }
    return {**info, **changes}


def eigenvalues(count=10):
    values = 0.5 ** np.arange(count)
    # The first three of ten hold 80 %.
    values[3:] *= 0.25 * values[:3].sum() / values[3:].sum()
    return values


def evaluation(**changes):
    numbers = {"auroc": 0.9856, "fpr": 0.0465, "aupr_in": 0.98, "aupr_out": 0.97, "tpr": 0.95, "intervals": None}
    return SimpleNamespace(**{**numbers, **changes})


def text_of(html):
    """All words, which also proves that tags are closed and attributes quoted."""
    return " ".join(ElementTree.fromstring(html).itertext())


def test_a_detector_is_told_in_words():
    words = text_of(detector_html(information(), -0.25, [eigenvalues()]))
    assert "kpca-nys" in words
    assert "4,750 rows × 342 features" in words
    assert "gaussian kernel, γ = 1.5, on unit vectors; 1,024 uniform landmarks, complete residual" in words
    assert "3 of 10 directions, 80.00 % of the variance" in words
    assert (
        "in-distribution from a score of −0.25 on; keeps at least 95 % of in-distribution rows with a confidence "
        "of 90 %; expected 97.21 % (95 %: 94.89 % to 98.85 %), set with 250 held-out training rows"
    ) in words
    assert "q = 3: 80.00 %" in words


@pytest.mark.parametrize(
    ("kernel", "by", "words"),
    [
        ({"name": "linear"}, {"kind": "identity"}, "linear kernel, on unit vectors"),
        (
            {"name": "laplacian", "gamma": 0.05},
            {"kind": "fourier", "features": 2048, "draw": "iid"},
            "laplacian kernel, γ = 0.05, on unit vectors; 2,048 random Fourier features (iid)",
        ),
        (
            {"name": "polynomial", "degree": 2, "coef0": 1.0},
            {"kind": "tensor-sketch", "features": 512},
            "polynomial kernel, degree 2, c = 1, on unit vectors; tensor sketch of 512 features",
        ),
        (
            {"name": "gaussian", "gamma": 1},
            {"kind": "nystrom", "landmarks": 2, "sampling": {"given": [0, 4]}},
            "2 given landmarks, complete residual",
        ),
        ({"name": "gaussian", "gamma": 1}, {"kind": "exact"}, "all rows"),
    ],
)
def test_every_map_has_words(kernel, by, words):
    html = detector_html(information(spec=kernel_spec(kernel=kernel, map=by)), None, [eigenvalues()])
    assert words in text_of(html)


def test_methods_without_a_subspace_tell_what_they_found_and_have_no_plot():
    results = {"family": "baseline", "found": {"bank rows": 50000.0, "alpha": 0.123456}}
    html = detector_html(information({"family": "knn"}, results, method="knn", threshold=None), None, [])
    words = text_of(html)
    assert "bank rows 50,000" in words and "alpha 0.12346" in words
    assert "none: scores without decisions" in words
    assert "<svg" not in html


def test_an_ensemble_has_two_plots_and_a_rectified_score_shows_its_own():
    spec = {"family": "kpca-ensemble", "rff": kernel_spec(), "nystrom": kernel_spec()}
    results = {"family": "kpca-ensemble", "members": [kernel_results(), kernel_results(components=4)]}
    html = detector_html(information(spec, results), -1.0, [eigenvalues(), eigenvalues()])
    assert html.count("<svg") == 2 and "subspace (rff)" in html and "subspace (nys)" in html
    spec = {"family": "rectified", "steps": [], "score": kernel_spec()}
    results = {"family": "rectified", "steps": [], "score": kernel_results(clip=1.25)}
    html = detector_html(information(spec, results), -1.0, [eigenvalues()])
    assert html.count("<svg") == 1 and "activations cut at 1.25" in html


def test_eigenvalues_of_the_kept_directions_alone_give_the_same_mark():
    everything = detector_html(information(), None, [eigenvalues()])
    kept_only = detector_html(information(), None, [eigenvalues()[:3]])
    mark = everything[everything.index("<circle") :].split("/>")[0]
    assert mark in kept_only


def test_an_evaluation_is_told_in_words():
    html = evaluation_html(evaluation(), np.linspace(0, 1, 100), np.linspace(-1, 0.1, 50))
    words = text_of(html)
    assert "AUROC 98.56 %" in words and "FPR95 4.65 %" in words
    assert "100 in-distribution, 50 out-of-distribution" in words
    assert html.count("<svg") == 1


def test_intervals_are_shown_where_there_are_any():
    intervals = {"level": 0.95, "auroc": [0.97, 0.99], "fpr": [0.03, 0.06]}
    words = text_of(evaluation_html(evaluation(intervals=intervals)))
    assert "98.56 % (95 %: 97.00 % to 99.00 %)" in words
    assert "4.65 % (95 %: 3.00 % to 6.00 %)" in words


def test_another_rate_is_named_as_such():
    words = text_of(evaluation_html(evaluation(tpr=0.8), [0.0, 1.0], [0.5]))
    assert "FPR80 4.65 %" in words and "keeps 80 % of it" in words


def test_a_real_detector_and_a_real_evaluation_show_themselves():
    draw = np.random.default_rng(0)
    known = draw.normal(size=(500, 8)) + 3
    ood_rows = draw.normal(size=(100, 8))
    for name in ("auto", "kpca-rff", "kpca-ensemble", "pca+react", "knn", "ssd"):
        options = {"features": 64} if name == "kpca-rff" else {}
        if name == "kpca-ensemble":
            options = {"features": 64, "landmarks": 64, "sampling": "uniform"}
        detector = offspan.make(name, **options).fit(known).detector
        words = text_of(detector._repr_html_())
        assert detector.method in words and "500 rows" not in words and "× 8 features" in words
        scores = detector.score(known), detector.score(ood_rows)
        for interval in (None, "delong", "bootstrap"):
            assert "AUROC" in text_of(offspan.metrics.evaluate(*scores, interval=interval)._repr_html_())


def test_without_scores_there_is_no_plot():
    assert "<svg" not in evaluation_html(evaluation())


@pytest.mark.parametrize(
    ("ind", "ood"),
    [
        ([0.5] * 30, [0.5] * 30),
        ([0.0] * 30, [0.0] * 30),
        ([-np.inf] * 5, [-np.inf] * 5),
        ([-np.inf, 0.2, 0.4], [0.1]),
        ([np.finfo(float).min, 0.2, 0.4], [0.1, np.finfo(float).max]),
        ([1e-300, 2e-300], [3e-300]),
        ([1e15, 1e15 + 1], [1e15]),
    ],
)
def test_odd_scores_do_not_break_the_histogram(ind, ood):
    html = evaluation_html(evaluation(), ind, ood)
    text_of(html)
    assert "nan" not in html and "inf " not in html


def test_nothing_is_taken_for_markup():
    bad = '<script>alert("1")</script>'
    results = {"family": "baseline", "found": {bad: 1.0}}
    html = detector_html(information({"family": "x"}, results, method=bad), None, [])
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 2


@pytest.mark.parametrize(
    "html",
    [
        detector_html(information(), -0.25, [eigenvalues()]),
        evaluation_html(evaluation(), [0.0, 1.0], [0.5, 0.2]),
    ],
    ids=["detector", "evaluation"],
)
def test_the_page_is_self_contained_and_follows_the_theme(html):
    assert "http" not in html and "<script" not in html and "<style" not in html and " id=" not in html
    assert "currentColor" in html
    assert 'fill="black"' not in html and 'fill="white"' not in html


@pytest.mark.parametrize("share", [0.95, 0.55, 0.8, 1.0])
@pytest.mark.parametrize("count", [1, 7, 19, 20, 100, 260, 1000])
def test_the_threshold_keeps_the_share_and_not_one_row_more(count, share):
    # 0.55 · 100 is more than 55 in floating point.
    scores = np.random.default_rng(count).permutation(np.arange(count, dtype=float))
    kept = (scores >= _threshold_that_keeps(scores, share)).sum()
    assert kept / count >= share
    assert (kept - 1) / count < share


def test_scores_outside_of_the_bins_count_in_the_outermost():
    shares = _shares_in_bins(np.array([-np.inf, -7.0, 0.1, 0.6, 1.0, 9.0, 10.0, 11.0]), np.array([0.0, 0.5, 1.0]))
    assert shares.tolist() == [3 / 8, 5 / 8]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.93, 0.02), (1e-9, 3e-9), (-1e6, 1e6), (12.2, 12.3)])
def test_ticks_are_few_and_inside(low, high):
    ticks = _round_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert all(low - 1e-9 * abs(low) <= tick <= high + 1e-9 * abs(high) for tick in ticks)
