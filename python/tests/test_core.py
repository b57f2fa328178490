"""Fit, score, save, load; what goes in and what comes out."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import offspan

METHODS = ["kpca-nys", "kpca-rff", "pca", "knn", "energy", "vim", "mahalanobis", "knn+react", "she"]


def fitted(name, rows, head, **options):
    labels = np.arange(len(rows)) % 4
    kpca = {"sampling": "uniform", "landmarks": 64} if name == "kpca-nys" else {}
    method = offspan.make(name, head=head, **kpca, **options)
    return method.fit(rows, logits=rows @ head[0].T + head[1], labels=labels)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_scores_saves_loads_and_pickles(name, rows, head, tmp_path):
    method = fitted(name, rows, head)
    logits = rows @ head[0].T + head[1]
    scores = method.score(rows, logits=logits)
    assert scores.shape == (len(rows),) and scores.dtype == np.float64 and np.isfinite(scores).all()
    path = tmp_path / "detector.offspan"
    method.save(path)
    again = [
        offspan.Detector.load(path),
        offspan.Detector.load(str(path)),
        offspan.Detector.from_bytes(path.read_bytes()),
        pickle.loads(pickle.dumps(method.detector)),
        pickle.loads(pickle.dumps(method)),
    ]
    for other in again:
        np.testing.assert_array_equal(other.score(rows, logits=logits), scores)
    assert again[0] == method.detector
    assert method.detector.method == method.detector.info["method"]
    assert method.detector.width == rows.shape[1]
    kept = method.predict(rows, logits=logits)
    np.testing.assert_array_equal(kept, scores >= method.threshold)
    assert 0.85 < kept.mean() < 1.0


def test_scores_do_not_depend_on_type_layout_or_place(rows, tmp_path):
    halves = rows.astype(np.float16)
    detector = offspan.KPCA(landmarks=64).fit(halves).detector
    scores = detector.score(halves)
    np.save(tmp_path / "rows.npy", halves)
    wide = np.zeros((len(rows), 30), dtype=np.float16)
    wide[:, 5:17] = halves
    given = {
        "float32": halves.astype(np.float32),
        "float64": halves.astype(np.float64),
        "fortran": np.asfortranarray(halves),
        "columns of a wider array": wide[:, 5:17],
        "reversed twice": np.ascontiguousarray(halves[::-1])[::-1],
        "read-only": np.frombuffer(halves.tobytes(), dtype=np.float16).reshape(halves.shape),
        "memory map": np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "path": tmp_path / "rows.npy",
        "path as text": str(tmp_path / "rows.npy"),
        "lists": halves.astype(float).tolist(),
    }
    for name, same in given.items():
        np.testing.assert_array_equal(detector.score(same), scores, err_msg=name)
        refitted = offspan.KPCA(landmarks=64).fit(same).detector
        np.testing.assert_array_equal(refitted.score(halves), scores, err_msg=name)


def test_fits_do_not_depend_on_threads(rows):
    detectors = []
    for count in (1, 2, 3):
        offspan.set_threads(count)
        assert offspan.threads() == count
        detectors.append(offspan.KPCA("rff", features=128).fit(rows).detector.to_bytes())
    offspan.set_threads(None)
    assert detectors[0] == detectors[1] == detectors[2]


def test_nothing_is_copied_in(rows):
    """A copy of this array would take a terabyte."""
    huge = np.broadcast_to(rows[:1], (20_000_000_000, rows.shape[1]))
    detector = offspan.KPCA(landmarks=64).fit(rows).detector
    with pytest.raises(offspan.InputError, match="12 columns"):
        detector.score(huge[:, :5])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rows: offspan.make("nothing"), "unknown method `nothing`; expected all, one of auto, pca,"),
        (lambda rows: offspan.make("knn", gamma=1.0), "gamma has no meaning for knn"),
        (lambda rows: offspan.make("knn", wings=2), "wings: there is no such option"),
        (lambda rows: offspan.make("knn", neighbours="many"), "expected a whole number of at least 0, got `many`"),
        (lambda rows: offspan.make("kpca-nys", sampling="best"), "sampling: expected low-energy or high-energy"),
        (lambda rows: offspan.KPCA(components=3, explained_variance=0.9), "cannot be given together"),
        (lambda rows: offspan.KPCA("circle"), "map: expected nystrom, rff"),
        (lambda rows: offspan.KPCA(cosine=False).fit(rows), "cosine=False needs gamma"),
        (lambda rows: offspan.KPCA(landmarks=5000).fit(rows), "landmarks: expected from 1 to"),
        (lambda rows: offspan.make("knnn"), r"did you mean knn\?"),
        (lambda rows: offspan.KPCA(landmark_rows=[1.5, 2.0]), "landmark_rows: expected row numbers"),
        (lambda rows: offspan.KPCA(landmark_rows=[-1]), "landmark_rows: expected row numbers"),
        (lambda rows: offspan.KPCA(landmarks=64).fit(rows, calibrate=(rows,)), "calibrate: expected rows"),
        (lambda rows: offspan.make("vim", head=(rows[:4] * np.nan, np.zeros(4))).fit(rows), "the head's weight: row 0"),
        (lambda rows: offspan.KPCA(landmarks=64).fit(rows).partial_fit(rows), "fitted to all its rows at once"),
        (lambda rows: offspan.KPCA().fit(rows[0]), "expected an array of two dimensions"),
        (lambda rows: offspan.KPCA().fit(rows[:0]), "expected at least"),
        (lambda rows: offspan.KPCA().fit(np.array([["a"]])), "expected numbers"),
        (lambda rows: offspan.KPCA().fit(rows.astype(complex)), "expected numbers"),
        (
            lambda rows: offspan.KPCA(landmarks=9).fit(np.where(rows > 4, np.nan, rows)),
            "is NaN; every value must be finite",
        ),
        (lambda rows: offspan.KPCA(landmarks=9).fit(rows * 0), "is all zeros; it has no direction"),
        (lambda rows: offspan.make("vim").fit(rows), "vim .*needs the network's last layer"),
        (lambda rows: offspan.make("energy").fit(rows), "needs logits"),
        (lambda rows: offspan.make("knn", head=(rows[:4], np.zeros(3))).fit(rows), "one number per row of its weight"),
        (lambda rows: offspan.make("knn").fit(rows, logits=rows[:5]), "expected shape 1200 rows"),
        (lambda rows: offspan.make("mahalanobis").fit(rows, labels=np.ones(1200)), "labels: expected whole numbers"),
        (lambda rows: offspan.KPCA(landmarks=64).fit(rows, hold_out=2.0), "hold_out: expected a share"),
        (lambda rows: offspan.KPCA(landmarks=64).fit(rows, hold_out=0).predict(rows), "a decision needs a threshold"),
    ],
)
def test_bad_input_is_a_value_error_with_the_library_s_sentence(call, words, rows):
    with pytest.raises(offspan.InputError, match=words) as caught:
        call(rows)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, offspan.OffspanError)


def test_files_that_are_missing_or_bad(tmp_path, rows):
    with pytest.raises(FileNotFoundError, match=r"cannot open .*nowhere\.npy"):
        offspan.KPCA().fit(tmp_path / "nowhere.npy")
    with pytest.raises(FileNotFoundError):
        offspan.Detector.load(tmp_path / "nowhere")
    path = tmp_path / "detector"
    offspan.KPCA(landmarks=64).fit(rows).save(path)
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    with pytest.raises(offspan.FormatError, match="truncated or damaged"):
        offspan.Detector.load(path)
    with pytest.raises(offspan.FormatError):
        offspan.Detector.from_bytes(b"nothing of the kind")
    with pytest.raises(OSError, match="cannot"):
        offspan.KPCA(landmarks=64).fit(rows).save(tmp_path / "no" / "folder")


def test_a_method_that_is_not_fitted_says_so(rows):
    with pytest.raises(offspan.NotFittedError, match="call `fit` first"):
        offspan.KPCA().score(rows)
    assert "not fitted" in repr(offspan.KPCA())
    assert repr(offspan.KPCA("rff", features=9, frequencies=None)).startswith("offspan.KPCA('rff', features=9")
    assert "frequencies=…" in repr(offspan.KPCA("rff", frequencies=(np.zeros((4, 64)), np.zeros(4))))


def test_moments_add_up_to_the_whole_fit(rows):
    for kpca in (offspan.KPCA("rff", features=64), offspan.KPCA("pca", components=3)):
        whole = kpca.fit(rows, hold_out=0).detector
        parts = [offspan.Moments(kpca, width=12).update(part) for part in np.array_split(rows, 3)]
        parts = [pickle.loads(pickle.dumps(part)) for part in parts]
        assert [part.rows for part in parts] == [400, 400, 400]
        merged = parts[0].merge(parts[1]).merge(parts[2])
        assert (merged.rows, merged.width) == (1200, 12)
        np.testing.assert_allclose(merged.detector().score(rows), whole.score(rows), rtol=1e-4)


def test_moments_with_landmarks(rows, ood_rows):
    landmarks = rows[offspan.choose_landmarks(len(rows), 80, seed=3)]
    kpca = offspan.KPCA(landmark_rows=offspan.choose_landmarks(len(rows), 80, seed=3), residual="complete")
    whole = kpca.fit(rows, hold_out=0).detector
    moments = offspan.Moments(offspan.KPCA(), landmarks=landmarks).update(rows[:700]).update(rows[700:])
    np.testing.assert_allclose(moments.detector().score(ood_rows), whole.score(ood_rows), rtol=1e-4)
    with pytest.raises(offspan.InputError, match="other landmarks"):
        moments.merge(offspan.Moments(offspan.KPCA(), landmarks=landmarks[:80][::-1].copy()))
    with pytest.raises(offspan.InputError, match="12 columns"):
        moments.update(rows[:, :5])
    assert moments.rows == 1200
    with pytest.raises(offspan.InputError, match="a partial fit is for kernel PCA"):
        offspan.Moments(offspan.make("knn"), width=3)
    with pytest.raises(offspan.InputError, match="needs landmarks"):
        offspan.Moments(offspan.KPCA(), width=3)


def test_partial_fit_goes_on(rows, ood_rows):
    kpca = offspan.KPCA(landmarks=64)
    for part in np.array_split(rows, 4):
        kpca.partial_fit(part)
    assert kpca.moments.rows == 1200
    assert kpca.detector.info["training"]["rows"] == 1200
    assert offspan.metrics.evaluate(kpca.score(rows), kpca.score(ood_rows)).auroc > 0.9
    assert kpca.threshold is None
    assert kpca.calibrate(rows, keep=0.9, confidence=0.5).predict(rows).mean() == pytest.approx(0.9, abs=0.01)
    kpca.partial_fit(rows[:100])
    assert kpca.detector.info["training"]["rows"] == 1300


def test_a_first_part_that_fails_changes_nothing(rows):
    kpca = offspan.KPCA("rff", features=64)
    with pytest.raises(offspan.InputError, match="NaN"):
        kpca.partial_fit(np.where(np.arange(len(rows))[:, None] == 900, np.nan, rows))
    assert kpca.moments is None and not kpca.is_fitted
    assert kpca.partial_fit(rows[:, :5]).moments.width == 5


def test_few_rows_have_fewer_landmarks_by_default(rows):
    ranks = [offspan.KPCA().fit(rows[:count]).detector.info["results"]["rank"]["landmarks"] for count in (400, 1200)]
    assert ranks == [200, 600]


def test_every_method_can_be_calibrated_afterwards(rows, tmp_path):
    knn = offspan.make("knn").fit(rows[:800], hold_out=0)
    assert knn.threshold is None
    calibrated = knn.calibrate(rows[800:], keep=0.9, confidence=0.5)
    assert calibrated.predict(rows[800:]).mean() == pytest.approx(0.9, abs=0.01)
    knn.save(tmp_path / "knn.offspan")
    assert offspan.load(tmp_path / "knn.offspan").threshold == knn.threshold
    assert offspan.Detector.from_bytes(bytearray(knn.detector.to_bytes())) == knn.detector


def test_calibration_rows_set_the_threshold(rows):
    kpca = offspan.KPCA(landmarks=64).fit(rows[:800], calibrate=rows[800:], keep=0.8, confidence=0.5)
    assert kpca.detector.info["threshold"]["source"] == "given"
    assert kpca.predict(rows[800:]).mean() == pytest.approx(0.8, abs=0.01)


def test_progress_is_told_and_may_stop_the_fit(rows):
    told = []
    offspan.KPCA(landmarks=64).fit(rows, progress=lambda *step: told.append(step))
    stages = {stage for stage, _, _ in told}
    assert "moments of the training rows" in stages
    assert ("moments of the training rows", 1200, 1200) in told

    def refuse(stage, done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        offspan.KPCA(landmarks=64).fit(rows, progress=refuse)


def test_too_few_rows_for_a_threshold_is_a_warning(rows):
    with pytest.warns(UserWarning, match="no threshold"):
        kpca = offspan.KPCA(landmarks=10).fit(rows[:50])
    assert kpca.threshold is None


def test_metrics_are_the_library_s():
    draw = np.random.default_rng(0)
    ind, ood = draw.normal(1.0, 1.0, 500), draw.normal(0.0, 1.0, 400)
    result = offspan.metrics.evaluate(ind, ood, interval="delong")
    exact = (ind[:, None] > ood).mean() + 0.5 * (ind[:, None] == ood).mean()
    assert result.auroc == pytest.approx(exact, abs=1e-12)
    threshold = np.sort(ind)[::-1][int(np.ceil(0.95 * 500)) - 1]
    assert result.fpr95 == pytest.approx((ood >= threshold).mean())
    assert result.intervals
    assert set(result.as_dict()) >= {"auroc", "fpr", "aupr_in", "aupr_out"}
    with pytest.raises(offspan.InputError, match="NaN"):
        offspan.metrics.evaluate([np.nan], [0.0])
    with pytest.raises(AttributeError, match=r"rate of 0\.9"):
        _ = offspan.metrics.evaluate(ind, ood, tpr=0.9).fpr95


def test_the_catalogue_is_that_of_the_command_line(command_line):
    import json

    listed = json.loads(subprocess.run([command_line, "methods", "--json"], check=True, capture_output=True).stdout)
    names = [method["name"] for method in (listed["methods"] if isinstance(listed, dict) else listed)]
    assert [method["name"] for method in offspan.methods()] == names


def test_importing_is_light():
    code = "import sys, offspan; print(sorted({'torch', 'sklearn', 'scipy', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_saving_replaces_no_file_of_another_kind(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 6)) + 2
    method = offspan.make("pca").fit(rows)
    for path in (tmp_path / "train.npy", tmp_path / "notes.txt"):
        np.save(path, rows) if path.suffix == ".npy" else path.write_text("precious")
        before = path.read_bytes()
        for save in (method.save, method.detector.save, offspan.Monitor(method).save):
            with pytest.raises(offspan.errors.InputError, match="would take its place"):
                save(path)
        assert path.read_bytes() == before
    method.save(tmp_path / "train.npy", force=True)
    method.save(tmp_path / "train.npy")
    assert offspan.Detector.load(tmp_path / "train.npy") == method.detector


def test_altered_bytes_of_a_file_are_noticed(tmp_path):
    path = tmp_path / "x.offspan"
    offspan.make("pca").fit(np.random.default_rng(0).normal(size=(300, 6)) + 2).save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(offspan.errors.FormatError, match="damaged"):
        offspan.Detector.load(path)


def test_a_checkpoint_that_cannot_be_written_is_a_warning(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40_000, 4)) + 2
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()

    def take_away(stage, done, total):
        if stage.startswith("moments") and folder.exists():
            folder.rename(elsewhere)

    with pytest.warns(UserWarning, match="the checkpoint could not be saved"):
        fitted = offspan.make("pca").fit(rows, checkpoint=folder / "c", checkpoint_every=0, progress=take_away)
    assert fitted.detector == offspan.make("pca").fit(rows).detector


def test_labels_may_lie_anywhere_in_memory(rows):
    labels = np.arange(len(rows)) % 4
    moved = np.frombuffer(b"." + labels.tobytes(), np.int64, offset=1)
    assert not moved.flags.aligned
    one, other = (offspan.make("mahalanobis").fit(rows, labels=given) for given in (labels, moved))
    assert one.detector == other.detector
