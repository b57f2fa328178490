"""Thresholds with a promise, p-values, batches with few false alarms, and the check that all of it still holds."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

import offspan


@pytest.fixture(scope="module")
def known():
    """In-distribution rows: some to fit, some to calibrate, some that come later."""
    return np.random.default_rng(1).normal(size=(2600, 6)) + 2


@pytest.fixture(scope="module")
def detector(known):
    return offspan.KPCA(landmarks=64).fit(known[:1000], calibrate=known[1000:1600]).detector


def strange(count):
    return np.random.default_rng(2).normal(size=(count, 6))


def chance_of_at_least(k, n, p):
    """That k of n trials succeed, exactly."""
    return 1 - sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k))


def rank_by_definition(n, keep, confidence):
    """The largest k with P(Bin(n, 1 − keep) ≥ k) ≥ confidence."""
    return max(k for k in range(1, n + 1) if chance_of_at_least(k, n, 1 - keep) >= confidence)


@pytest.mark.parametrize(("keep", "confidence"), [(0.95, 0.95), (0.9, 0.95), (0.95, 0.5), (0.99, 0.99)])
def test_the_threshold_is_the_calibration_score_of_the_promised_rank(detector, known, keep, confidence):
    scores = np.sort(detector.score(known[1000:1600]))
    np.testing.assert_array_equal(detector.calibration_scores, scores)
    rank = rank_by_definition(600, keep, confidence)
    by_rows = detector.calibrated(known[1000:1600], keep=keep, confidence=confidence)
    by_stored_scores = detector.calibrated(keep=keep, confidence=confidence)
    assert by_rows == by_stored_scores
    assert by_rows.threshold == scores[rank - 1]
    stored = by_rows.info["threshold"]
    assert (stored["keep"], stored["confidence"], stored["rank"], stored["rows"]) == (keep, confidence, rank, 600)
    assert stored["expected_share"] == pytest.approx(1 - rank / 601)
    low, high = stored["share_interval"]
    assert low < stored["expected_share"] < high


def test_what_is_not_promised_anew_stays(detector):
    careful = detector.calibrated(keep=0.9, confidence=0.8).calibrated(confidence=0.99)
    assert (careful.info["threshold"]["keep"], careful.info["threshold"]["confidence"]) == (0.9, 0.99)
    assert detector.info["threshold"]["keep"] == 0.95, "the first detector is as it was"


def test_a_fit_promises_what_was_asked_for(known):
    fitted = offspan.KPCA(landmarks=64).fit(known, keep=0.9, confidence=0.8)
    stored = fitted.detector.info["threshold"]
    assert (stored["keep"], stored["confidence"], stored["source"]) == (0.9, 0.8, "held-out")
    assert 0.9 < stored["expected_share"] < 0.95
    assert len(fitted.calibration_scores) == stored["rows"]
    # 5 %, or four times what the promise needs where that is more of few rows.
    assert offspan.KPCA(landmarks=64).fit(known, keep=0.95).detector.info["threshold"]["rows"] > 0.07 * len(known)


def test_the_promise_is_seldom_broken():
    """Over many draws of calibration rows; the plain percentile would break it in about half of them."""
    draw = np.random.default_rng(3)
    detector = offspan.make("pca", components=1).fit(draw.normal(size=(200, 2)) + 3, hold_out=0).detector
    later = detector.score(draw.normal(size=(20_000, 2)) + 3)
    kept = [
        (later >= detector.calibrated(draw.normal(size=(150, 2)) + 3, keep=0.9).threshold).mean() for _ in range(200)
    ]
    broken = np.mean(np.array(kept) < 0.9)
    assert broken <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_p_values_are_those_of_the_definition(detector, known):
    new = np.vstack([known[1600:1800], strange(50), known[1000:1003], np.zeros((1, 6))])
    at_or_below = (detector.calibration_scores <= detector.score(new)[:, None]).sum(axis=1)
    np.testing.assert_array_equal(detector.p_values(new), (1 + at_or_below) / 601)


def test_few_of_the_rows_that_fdr_refuses_are_in_distribution(detector, known):
    new = np.vstack([known[1600:], strange(300)])
    p = detector.p_values(new)
    # Benjamini and Hochberg: the k smallest, for the largest k whose p-value is at most k · level / m.
    order = np.argsort(p)
    below = np.flatnonzero(p[order] <= 0.1 * np.arange(1, len(p) + 1) / len(p))
    expected = np.ones(len(p), dtype=bool)
    expected[order[: below[-1] + 1]] = False
    decided = detector.predict(new, fdr=0.1)
    np.testing.assert_array_equal(decided, expected)
    np.testing.assert_array_equal(decided, ~offspan.benjamini_hochberg(p, 0.1))
    np.testing.assert_array_equal(offspan.benjamini_hochberg(p, 0.1), offspan.adjusted_p_values(p) <= 0.1)
    refused = ~decided
    assert refused[1000:].mean() > 0.5 and refused[:1000].sum() / refused.sum() < 0.2


def test_adjusted_p_values_are_those_of_the_definition():
    p = np.random.default_rng(4).uniform(size=40)
    ordered = np.sort(p) * 40 / np.arange(1, 41)
    expected = np.minimum.accumulate(ordered[::-1])[::-1][p.argsort().argsort()]
    np.testing.assert_allclose(offspan.adjusted_p_values(p), np.minimum(expected, 1), rtol=1e-14)
    assert offspan.benjamini_hochberg([], 0.1).shape == (0,)


def test_a_check_doubts_rows_from_elsewhere_only(detector, known):
    fits = detector.check(known[1600:])
    scores = detector.score(known[1600:])
    assert (fits.rows, fits.flagged) == (1000, (scores < detector.threshold).sum())
    assert fits.expected_share == pytest.approx(1 - detector.info["threshold"]["expected_share"])
    everything = np.sort(np.concatenate([scores, detector.calibration_scores]))
    shares = [
        np.searchsorted(np.sort(side), everything, side="right") / len(side)
        for side in (scores, detector.calibration_scores)
    ]
    assert fits.distance == pytest.approx(np.abs(shares[0] - shares[1]).max())
    assert fits.p_value == min(1, 2 * min(fits.flagged_p_value, fits.distance_p_value))
    assert fits.p_value > 0.01
    moved = detector.check(np.vstack([known[1600:], strange(100)]))
    assert moved.p_value < 1e-6


def test_a_method_does_what_its_detector_does(known):
    method = offspan.make("knn").fit(known[:1000])
    new, detector = known[1600:], method.detector
    np.testing.assert_array_equal(method.p_values(new), detector.p_values(new))
    np.testing.assert_array_equal(method.predict(new, fdr=0.2), detector.predict(new, fdr=0.2))
    np.testing.assert_array_equal(method.calibration_scores, detector.calibration_scores)
    assert method.check(new) == detector.check(new)
    assert method.calibrate(keep=0.8, confidence=0.5).threshold > detector.threshold
    assert method.detector == detector.calibrated(keep=0.8, confidence=0.5)


def test_calibration_scores_are_saved(detector, tmp_path):
    detector.save(tmp_path / "net.offspan")
    loaded = offspan.load(tmp_path / "net.offspan")
    np.testing.assert_array_equal(loaded.calibration_scores, detector.calibration_scores)
    assert loaded.calibrated(keep=0.9) == detector.calibrated(keep=0.9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda bare, rows: bare.p_values(rows), "a p-value needs a threshold: the detector has none"),
        (lambda bare, rows: bare.predict(rows, fdr=0.1), "a decision needs a threshold"),
        (lambda bare, rows: bare.check(rows), "a check needs a threshold: the detector has none"),
        (lambda bare, rows: offspan.Monitor(bare), "a monitor needs a threshold: the detector has none"),
        (lambda bare, rows: bare.predict(rows), "a larger hold_out"),
        (lambda bare, rows: bare.calibrated(keep=0.9), "another threshold needs calibration scores"),
        (lambda bare, rows: bare.calibrated(logits=rows), "expected features together with their logits"),
        (lambda bare, rows: bare.calibrated(rows[:58]), "confidence of 0.95: expected at least 59 rows, got 58"),
        (lambda bare, rows: bare.calibrated(rows, keep=1.0), "keep: expected a number between 0 and 1"),
        (lambda bare, rows: bare.calibrated(rows, confidence=0), "confidence: expected a number between 0 and 1"),
        (lambda bare, rows: bare.calibrated(rows).calibrated(keep=0.999), "expected at least 2995 rows, got 1000"),
        (lambda bare, rows: bare.calibrated(rows).check(rows[:0]), "later scores"),
        (lambda bare, rows: bare.calibrated(rows).predict(rows, fdr=1.0), r"fdr: expected a share in \(0, 1\)"),
        (lambda bare, rows: offspan.benjamini_hochberg([0.5, 1.5], 0.1), "p_value: expected a number from 0 to 1"),
        (lambda bare, rows: offspan.adjusted_p_values([np.nan]), "p_value: expected a number from 0 to 1"),
        (lambda bare, rows: offspan.adjusted_p_values(rows), "p_values: expected one number per row"),
        (lambda bare, rows: offspan.benjamini_hochberg(["a"], 0.1), "p_values: expected one number per row"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(call, words, known):
    bare = offspan.make("pca").fit(known[:1000], hold_out=0).detector
    assert bare.threshold is None and bare.calibration_scores is None
    with pytest.raises(offspan.InputError, match=words):
        call(bare, known[1600:])


def test_59_rows_are_enough_and_the_lowest_is_the_threshold(known):
    bare = offspan.make("pca").fit(known[:1000], hold_out=0).detector
    assert bare.calibrated(known[1000:1059]).threshold == bare.score(known[1000:1059]).min()
