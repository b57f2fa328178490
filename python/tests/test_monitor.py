"""Monitors: alarms when a stream changes, the same ones however it is cut and wherever it goes on."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import offspan


@pytest.fixture(scope="module")
def detector():
    return offspan.KPCA(landmarks=64).fit(stream(2000, 1)).detector


def stream(count, seed, mean=2.0):
    return np.random.default_rng(seed).normal(size=(count, 6)) + mean


def test_a_change_is_found_and_its_absence_is_not(detector):
    monitor = offspan.Monitor(detector)
    quiet = monitor.update(stream(1000, 2))
    assert not quiet.alarmed and monitor.alarms == () and "none" in repr(monitor)
    changed = monitor.update(stream(500, 3, mean=0.5))
    assert (changed.rows, changed.rows_so_far, monitor.rows) == (500, 1500, 1500)
    assert changed.alarmed and changed.alarms == monitor.alarms
    kinds = {alarm.kind: alarm.row for alarm in monitor.alarms}
    assert set(kinds) == {"share", "distribution"}
    assert all(1000 <= row < 1100 for row in kinds.values())
    assert changed.share.alarm_row == kinds["share"] and changed.distribution.alarm_row == kinds["distribution"]
    # An alarm needs evidence of two over the chance of a false one.
    assert changed.share.largest_log10 >= np.log10(200) and changed.share.log10 <= changed.share.largest_log10
    assert f"share at row {kinds['share']}" in repr(monitor)
    # Each kind is raised once.
    assert monitor.update(stream(100, 4, mean=0.5)).alarms == ()


def test_a_report_counts_what_the_threshold_refuses(detector):
    rows = np.vstack([stream(300, 5), np.zeros((1, 6)), stream(20, 6, mean=0.0)])
    scores = detector.score(rows)
    monitor = offspan.Monitor(detector)
    monitor.update(scores=scores[:10])
    report = monitor.update(rows)
    assert report.flagged == (scores < detector.threshold).sum()
    assert report.share_flagged == report.flagged / 321
    assert (report.lowest.row, report.lowest.score) == (310, -np.inf)
    empty = monitor.update(scores=[])
    assert (empty.rows, empty.rows_so_far, empty.share_flagged, empty.lowest) == (0, 331, 0.0, None)
    options = monitor.options
    assert options["threshold"] == detector.threshold
    assert options["keep"] == detector.info["threshold"]["expected_share"]
    assert (options["false_alarm"], options["seed"]) == (0.01, 0)


def test_features_and_scores_batches_files_and_pickles_all_give_the_same(detector, tmp_path):
    rows = np.vstack([stream(400, 7), stream(200, 8, mean=1.2)])
    whole = offspan.Monitor(detector, false_alarm=0.05, seed=9)
    last = whole.update(rows)
    assert last.alarmed
    by_scores, saved, pickled = (offspan.Monitor(detector, false_alarm=0.05, seed=9) for _ in range(3))
    path = tmp_path / "stream.monitor"
    for part in np.array_split(rows, 13):
        report = by_scores.update(scores=detector.score(part))
        assert saved.update(part) == report and pickled.update(part) == report
        saved.save(path)
        saved, pickled = offspan.Monitor.load(path, detector), pickle.loads(pickle.dumps(pickled))
    for monitor in (by_scores, saved, pickled, offspan.Monitor.load(path)):
        assert (monitor.rows, monitor.alarms) == (600, last.alarms)
        ends = [end.update(scores=[0.0]) for end in (monitor, pickle.loads(pickle.dumps(whole)))]
        assert ends[0] == ends[1]


def test_alarms_of_streams_without_change_are_as_seldom_as_promised(detector):
    scores = detector.score(stream(60_000, 10))
    reference = detector.calibration_scores
    draw = np.random.default_rng(11)
    alarmed = 0
    for number in range(100):
        everything = draw.permutation(np.concatenate([reference, scores]))
        # Which of them are the reference is chance, as the promise has it.
        monitor = offspan.Monitor(with_calibration(detector, everything[:200]), false_alarm=0.1, seed=number)
        alarmed += monitor.update(scores=everything[200:1200]).alarmed
    assert alarmed <= 100 * (0.1 + 3 * np.sqrt(0.1 * 0.9 / 100))


def with_calibration(detector, scores):
    """A detector whose rows are their own scores."""
    flat = offspan.make("max-logit").fit(np.ones((2, 1)), logits=np.zeros((2, 1)), hold_out=0).detector
    return flat.calibrated(np.ones((len(scores), 1)), logits=scores[:, None].astype(np.float64))


def test_a_method_may_be_monitored_and_logits_go_with_features():
    rows = stream(1000, 12)
    logits = np.random.default_rng(13).normal(size=(1000, 5))
    method = offspan.make("energy").fit(rows, logits)
    monitor = offspan.Monitor(method)
    report = monitor.update(rows[:100], logits=logits[:100])
    assert report == offspan.Monitor(method.detector).update(scores=method.score(rows[:100], logits[:100]))


def test_of_two_that_save_to_one_state_the_second_is_told(detector, tmp_path):
    path = tmp_path / "stream.monitor"
    begun = offspan.Monitor(detector)
    begun.save(path)
    first, second = offspan.Monitor.load(path), offspan.Monitor.load(path)
    first.update(scores=[0.0])
    first.save(path)
    second.update(scores=[0.0, 1.0])
    for late in (second, begun):
        with pytest.raises(offspan.InputError, match="the state has changed since this monitor read or saved it"):
            late.save(path)
    assert offspan.Monitor.load(path).rows == 1
    first.update(scores=[1.0])
    first.save(path)
    second.save(tmp_path / "other.monitor")
    second.save(path, force=True)
    assert offspan.Monitor.load(path).rows == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other.monitor", "stream.monitor"]


def test_what_cannot_be_is_said_in_a_sentence(detector, tmp_path):
    path = tmp_path / "stream.monitor"
    monitor = offspan.Monitor(detector)
    monitor.update(scores=[0.0, 1.0])
    monitor.save(path)
    for given in ({}, {"features": stream(2, 1), "scores": [1.0]}):
        with pytest.raises(offspan.InputError, match="expected features or scores, and not both"):
            monitor.update(**given)
    with pytest.raises(offspan.InputError, match="scores: expected numbers, got NaN in row 1"):
        monitor.update(scores=[0.0, np.nan])
    with pytest.raises(offspan.InputError, match="scores: expected one number per row"):
        monitor.update(scores=[[0.0]])
    assert monitor.rows == 2, "errors leave no trace"
    with pytest.raises(offspan.InputError, match="loaded without its detector takes scores only"):
        offspan.Monitor.load(path).update(stream(2, 1))
    with pytest.raises(offspan.InputError, match="another detector or calibration"):
        offspan.Monitor.load(path, detector.calibrated(keep=0.8))
    with pytest.raises(offspan.InputError, match="false alarm: expected a chance between 0 and 1"):
        offspan.Monitor(detector, false_alarm=1.0)
    with pytest.raises(offspan.InputError, match="the reference of a monitor: expected at least 20 rows, got 5"):
        offspan.Monitor(detector.calibrated(stream(5, 1), keep=0.5, confidence=0.5))
    with pytest.raises(FileNotFoundError):
        offspan.Monitor.load(tmp_path / "nowhere")
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(offspan.FormatError):
        offspan.Monitor.load(path)
