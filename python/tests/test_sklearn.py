"""The scikit-learn estimators: scikit-learn's own checks, and what they promise beyond."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.4")

from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import offspan
from offspan.sklearn import KPCADetector, Nystroem, OODDetector, RandomFourierFeatures

# scikit-learn's checks fit a few dozen rows, on which thresholds and contamination="auto" warn, and rows that are far
# apart.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*rows are too few to hold some out:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*no threshold:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*rows are all zeros:UserWarning"),
    pytest.mark.filterwarnings("ignore:auto takes at least 40 rows:UserWarning"),
    pytest.mark.filterwarnings("ignore:most coordinates are nearly zero:UserWarning"),
]

WIDTH = 24


def rows(count, seed=0, dtype=np.float64):
    """In-distribution rows: three directions and a little noise."""
    basis = np.random.default_rng(99).normal(size=(3, WIDTH))
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, 3)) @ basis + 0.1 * rng.normal(size=(count, WIDTH))).astype(dtype)


def strange_rows(count, seed=0):
    return np.random.default_rng(1000 + seed).normal(size=(count, WIDTH))


# No check is expected to fail.
@parametrize_with_checks(
    [
        KPCADetector(),
        KPCADetector(cosine=False, gamma=0.1, contamination=0.1),
        KPCADetector("rff", features=64, precision="f64"),
        OODDetector(),
        OODDetector("knn", options={"neighbours": 3}),
        OODDetector("kpca-rff", keep=0.8, confidence=0.5, options={"features": 64}),
        RandomFourierFeatures(),
        RandomFourierFeatures(features=10, kernel="laplacian"),
        Nystroem(),
        Nystroem(kernel="linear"),
        Nystroem(kernel="polynomial", gamma=0.5),
    ]
)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


# --- the detector --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": 100, "residual": "complete"},
        {"landmarks": 60, "gamma": 0.3, "explained_variance": 0.9, "residual": "plain", "react": "p95"},
        {"map": "rff", "features": 128, "components": 20},
        {"map": "pca"},
        {"cosine": False, "gamma": 0.01, "landmarks": 50, "residual": "complete", "precision": "f64"},
    ],
    ids=["nystrom", "plain-react", "rff", "pca", "no-cosine"],
)
def test_scores_are_those_of_kpca_bit_for_bit(options, dtype):
    train, test = rows(500, dtype=dtype), rows(200, seed=1, dtype=dtype)
    ours = KPCADetector(**options, contamination=0.1, random_state=7).fit(train)
    reference = offspan.KPCA(**options, seed=7).fit(train, hold_out=0)
    np.testing.assert_array_equal(ours.score_samples(test), reference.score(test))


def test_auto_holds_rows_out_and_takes_the_threshold_of_the_core():
    train = rows(1000)
    ours = KPCADetector(landmarks=100).fit(train)
    reference = offspan.KPCA(landmarks=100).fit(train, hold_out=0.05, confidence=0.5)
    assert ours.offset_ == reference.detector.threshold
    np.testing.assert_array_equal(ours.predict(train) == 1, reference.predict(train))


def test_auto_keeps_about_95_percent_of_new_rows():
    detector = KPCADetector().fit(rows(2000))
    kept = (detector.predict(rows(4000, seed=1)) == 1).mean()
    # The threshold is set with about 100 rows, so its standard error is 2 %.
    assert 0.88 < kept < 1
    assert (detector.predict(strange_rows(200)) == -1).mean() > 0.95


def test_auto_warns_where_no_rows_can_be_spared():
    with pytest.warns(UserWarning, match="60 rows are too few to hold some out"):
        KPCADetector().fit(rows(60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KPCADetector(contamination=0.1).fit(rows(60))


@pytest.mark.parametrize("contamination", [0.01, 0.05, 0.1, 0.25, 0.5])
def test_contamination_is_the_share_of_training_rows_below_the_offset(contamination):
    train = rows(300)
    detector = KPCADetector(contamination=contamination)
    assert (detector.fit_predict(train) == -1).sum() == round(300 * contamination)
    decision = detector.decision_function(train)
    np.testing.assert_array_equal(decision, detector.score_samples(train) - detector.offset_)
    np.testing.assert_array_equal(detector.predict(train), np.where(decision >= 0, 1, -1))


@pytest.mark.parametrize("count", [2, 5, 10, 19, 20, 21])
def test_contamination_never_refuses_more_than_its_share_of_few_rows(count):
    refused = (KPCADetector(contamination=0.25).fit_predict(rows(count)) == -1).sum()
    assert refused == count // 4


def test_contamination_moves_the_offset_and_not_the_scores():
    few, many = (KPCADetector(contamination=share).fit(rows(300)) for share in (0.05, 0.3))
    assert few.offset_ < many.offset_
    np.testing.assert_array_equal(few.score_samples(rows(50, 1)), many.score_samples(rows(50, 1)))


@pytest.mark.parametrize("bad", [0, 0.0, -0.1, 0.51, 1, np.nan, "5%", None, [0.1]])
def test_bad_contamination_is_an_error_of_the_fit(bad):
    with pytest.raises(ValueError, match="contamination: expected"):
        KPCADetector(contamination=bad).fit(rows(50))


@pytest.mark.parametrize("contamination", ["auto", 0.1])
def test_rows_of_zeros_are_left_out_of_the_fit_and_are_outliers(contamination):
    train = rows(400)
    with_zeros = np.insert(train, [0, 7, 7, 300], 0.0, axis=0)
    expected = KPCADetector(contamination=contamination).fit(train)
    detector = KPCADetector(contamination=contamination).fit(with_zeros)
    test = rows(50, seed=1)
    np.testing.assert_array_equal(detector.score_samples(test), expected.score_samples(test))
    assert detector.offset_ == expected.offset_
    test[3] = 0
    scores = detector.score_samples(test)
    # Finite, because scikit-learn's metrics refuse infinities.
    assert np.isfinite(scores).all() and scores.argmin() == 3
    assert detector.predict(test)[3] == -1


def test_logits_follow_their_rows_when_rows_of_zeros_are_left_out():
    train, logits = rows(300), np.random.default_rng(3).normal(size=(300, 5))
    options = {"sampling": "low-energy", "landmarks": 40, "contamination": 0.1}
    expected = KPCADetector(**options).fit(train, logits=logits)
    with_zeros = np.insert(train, [10], 0.0, axis=0)
    detector = KPCADetector(**options).fit(with_zeros, logits=np.insert(logits, [10], -50.0, axis=0))
    np.testing.assert_array_equal(detector.score_samples(train), expected.score_samples(train))


def test_without_cosine_a_row_of_zeros_is_a_row_like_any_other():
    train = rows(300)
    train[5] = 0
    detector = KPCADetector(cosine=False, gamma=0.01, contamination=0.1).fit(train)
    assert detector.score_samples(train)[5] > -2


def test_rows_that_tell_nothing_are_errors_that_say_so():
    with pytest.raises(ValueError, match="at least 2 rows that are not all zeros, got 0"):
        KPCADetector().fit(np.zeros((10, 3)))
    with pytest.raises(ValueError, match="same"):
        KPCADetector().fit(np.ones((10, 3)))
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        KPCADetector().fit(np.arange(10.0)[:, None])


def test_the_default_number_of_landmarks_is_at_most_half_of_the_rows():
    def landmarks(count):
        return KPCADetector(contamination=0.1).fit(rows(count)).detector_.info["spec"]["map"]["landmarks"]

    assert [landmarks(count) for count in (2, 3, 50, 3000)] == [1, 1, 25, 1024]


def test_more_landmarks_than_rows_is_an_error_where_they_were_asked_for():
    with pytest.raises(ValueError, match="landmarks: expected from 1 to 30"):
        KPCADetector(landmarks=31, contamination=0.1).fit(rows(30))


@pytest.mark.parametrize(
    "bad", [{"map": "nope"}, {"kernel": "nope"}, {"gamma": -1.0}, {"residual": "nope"}, {"precision": "f8"}]
)
def test_bad_parameters_are_errors_of_the_fit(bad):
    detector = KPCADetector(**bad)
    with pytest.raises(ValueError, match=next(iter(bad))):
        detector.fit(rows(50))


def test_the_same_seed_gives_the_same_detector():
    def fit(random_state):
        return KPCADetector(random_state=random_state, contamination=0.1).fit(rows(200)).detector_.to_bytes()

    assert fit(3) == fit(3) == fit(np.int64(3))
    assert fit(3) != fit(4)
    assert fit(np.random.RandomState(5)) == fit(np.random.RandomState(5))
    assert fit(None) != fit(None)


@pytest.mark.parametrize("bad", [-1, 2**32, "seed"])
@pytest.mark.parametrize("estimator", [KPCADetector(), RandomFourierFeatures(), Nystroem()])
def test_bad_seeds_are_errors_of_the_fit(estimator, bad):
    with pytest.raises(ValueError):
        clone(estimator).set_params(random_state=bad).fit(rows(50))


def test_energy_sampling_takes_logits_in_fit():
    train, logits = rows(300), np.random.default_rng(3).normal(size=(300, 5))
    detector = KPCADetector(sampling="low-energy", landmarks=40, contamination=0.1).fit(train, logits=logits)
    reference = offspan.KPCA(sampling="low-energy", landmarks=40)
    reference.fit(train, logits=logits, hold_out=0)
    np.testing.assert_array_equal(detector.score_samples(train), reference.score(train))
    with pytest.raises(ValueError, match="logits"):
        clone(detector).fit(train)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(detector).fit(train, logits=logits[:-1])


def test_memory_layout_and_read_only_rows_do_not_matter():
    train = rows(200)
    expected = KPCADetector(contamination=0.1).fit(train).score_samples(train)
    frozen = np.asfortranarray(train)
    frozen.flags.writeable = False
    detector = KPCADetector(contamination=0.1).fit(frozen)
    np.testing.assert_array_equal(detector.score_samples(frozen), expected)


@pytest.mark.parametrize("contamination", ["auto", 0.2])
def test_the_saved_detector_scores_and_decides_the_same(contamination, tmp_path):
    detector = KPCADetector(contamination=contamination).fit(rows(800))
    detector.detector_.save(tmp_path / "net.offspan")
    loaded = offspan.Detector.load(tmp_path / "net.offspan")
    test = np.vstack([rows(50, 1), strange_rows(50)])
    np.testing.assert_array_equal(loaded.score(test), detector.score_samples(test))
    np.testing.assert_array_equal(loaded.score(test) >= detector.offset_, detector.predict(test) == 1)
    if contamination == "auto":
        assert detector.offset_ == loaded.threshold
        np.testing.assert_array_equal(loaded.predict(test), detector.predict(test) == 1)
    else:
        # An offset from rows of the fit promises nothing, so it is no threshold.
        assert loaded.threshold is None


def test_auto_stores_a_promise_with_even_chances():
    stored = KPCADetector().fit(rows(2000)).detector_.info["threshold"]
    assert (stored["keep"], stored["confidence"], stored["source"]) == (0.95, 0.5, "held-out")
    assert stored["expected_share"] == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("share", [0.07, 0.1, 0.29, 0.35])
@pytest.mark.parametrize("count", [100, 200, 700])
def test_contamination_is_reached_where_rounding_might_miss_it(share, count):
    # 0.29 · 100 is less than 29 in floating point.
    refused = (KPCADetector("pca", contamination=share).fit_predict(rows(count)) == -1).sum()
    assert refused / count <= share < (refused + 1) / count


def test_it_works_at_the_end_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), KPCADetector()).fit(rows(800))
    scores = pipeline.score_samples(np.vstack([rows(200, 1), strange_rows(200)]))
    assert roc_auc_score(np.repeat([1, 0], 200), scores) > 0.99
    assert set(pipeline.predict(strange_rows(20))) == {-1}


def test_grid_search_ranks_parameters_by_labelled_validation_rows():
    X = np.vstack([rows(600), rows(100, 1), strange_rows(100)])
    y = np.repeat([1, 1, -1], [600, 100, 100])
    # Fitted to in-distribution rows only, judged by the labelled ones.
    one_split = [(np.arange(600), np.arange(600, 800))]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KPCADetector(contamination=0.05)),
        {"kpcadetector__gamma": [1e-6, 1.0], "kpcadetector__explained_variance": [0.3, 0.99]},
        scoring="roc_auc",
        cv=one_split,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.99
    assert search.best_score_ > search.cv_results_["mean_test_score"].min()
    by_hand = clone(search.estimator).set_params(**search.best_params_).fit(X[:600])
    assert search.best_score_ == roc_auc_score(y[600:], by_hand.decision_function(X[600:]))


# --- the detector of every method ----------------------------------------------------------------


def head_of(classes=4):
    draw = np.random.default_rng(11)
    return draw.normal(size=(classes, WIDTH)), draw.normal(size=classes)


# scikit-learn has no place for tensors of other shapes, which some methods ask for by name.
METHODS = [method for method in offspan.methods() if "`" not in method["needs"]]
SMALLER = {"landmarks": 64, "features": 64, "epochs": 2, "steps": 20, "inducing": 16}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])
def test_every_method_scores_as_it_does_elsewhere(method):
    train, test = np.abs(rows(600)), np.abs(rows(30, 1))
    weight, bias = head_of()
    logits, test_logits = train @ weight.T + bias, test @ weight.T + bias
    takes = {parameter["name"] for parameter in method["parameters"]}
    options = {name: value for name, value in SMALLER.items() if name in takes}
    reference = offspan.make(method["name"], head=(weight, bias), seed=3, **options)
    reference.fit(train, logits, logits.argmax(axis=1))
    ours = OODDetector(method["name"], head=(weight, bias), options=options, random_state=3)
    ours.fit(train, logits=logits, labels=logits.argmax(axis=1))
    expected = reference.score(test, test_logits)
    np.testing.assert_array_equal(ours.score_samples(test, logits=test_logits), expected)
    assert (ours.method_, ours.offset_) == (reference.detector.method, reference.threshold)


def test_column_names_of_frames_are_remembered_and_compared():
    pandas = pytest.importorskip("pandas")
    names = [f"unit{i}" for i in range(WIDTH)]
    frame = pandas.DataFrame(rows(300), columns=names)
    detector = OODDetector("knn").fit(frame, calibrate=frame)
    assert list(detector.feature_names_in_) == names
    expected = OODDetector("knn").fit(rows(300), calibrate=rows(300)).score_samples(rows(300))
    np.testing.assert_array_equal(detector.score_samples(frame), expected)
    for call in (detector.score_samples, detector.predict, detector.p_values):
        with pytest.raises(ValueError, match="feature names"):
            call(frame[names[::-1]])
    with pytest.raises(ValueError, match="feature names"):
        OODDetector("knn").fit(frame, calibrate=frame[names[::-1]])


def test_decisions_and_p_values_are_those_of_the_detector():
    ours = OODDetector("knn", keep=0.9, confidence=0.8, hold_out=0.2, options={"neighbours": 5}).fit(rows(1000))
    reference = offspan.make("knn", neighbours=5).fit(rows(1000), keep=0.9, confidence=0.8, hold_out=0.2)
    test = np.vstack([rows(100, 1), strange_rows(100)])
    assert ours.detector_ == reference.detector
    np.testing.assert_array_equal(ours.predict(test) == 1, reference.predict(test))
    np.testing.assert_array_equal(ours.p_values(test), reference.p_values(test))
    np.testing.assert_array_equal(ours.decision_function(test), ours.score_samples(test) - reference.threshold)
    assert (ours.predict(test[100:]) == -1).mean() > 0.95


def test_the_general_detector_leaves_rows_of_zeros_out_and_says_so():
    train, weight = rows(400), head_of()[0]
    given = np.insert(train, [0, 7, 300], 0.0, axis=0)
    labels = (given @ weight.T).argmax(axis=1)
    with pytest.warns(UserWarning, match="3 of 403 rows are all zeros and left out of the fit"):
        detector = OODDetector("mahalanobis").fit(given, labels=labels)
    expected = OODDetector("mahalanobis").fit(train, labels=(train @ weight.T).argmax(axis=1))
    assert detector.detector_ == expected.detector_
    knn = OODDetector("knn").fit(train)
    scores = knn.score_samples(given)
    assert np.isfinite(scores).all() and scores[0] == scores.min() and knn.predict(given)[0] == -1
    with pytest.raises(ValueError, match="at least 2 rows that are not all zeros, got 1"):
        OODDetector().fit(np.vstack([np.zeros((50, 3)), np.ones((1, 3))]))
    plain = {"cosine": False, "gamma": 0.01, "landmarks": 50, "sampling": "uniform"}
    assert OODDetector("kpca-nys", options=plain).fit(given).detector_.info["training"]["rows"] > 300


def test_other_rows_can_set_the_threshold():
    ours = OODDetector("pca").fit(rows(500), calibrate=rows(200, 1))
    assert ours.detector_.info["threshold"]["source"] == "given"
    with pytest.raises(ValueError, match="features"):
        OODDetector("pca").fit(rows(500), calibrate=rows(200, 1)[:, :5])


def test_without_a_threshold_the_offset_comes_from_training_rows_with_a_warning():
    with pytest.warns(UserWarning, match="offset_ is set on training rows"):
        few = OODDetector("pca", keep=0.9).fit(rows(50))
    assert few.detector_.threshold is None
    assert (few.predict(rows(50)) == -1).sum() == 5
    with pytest.raises(offspan.InputError, match="needs a threshold: the detector has none"):
        few.p_values(rows(5))


def test_auto_says_that_it_takes_40_rows_and_what_is_fitted_instead():
    with pytest.warns(UserWarning, match="auto takes at least 40 rows to decide with, got 39: kernel PCA"):
        few = OODDetector().fit(rows(39))
    assert few.method_ == "kpca-nys"
    # The library's own least number is the same.
    assert OODDetector().fit(rows(40)).method_ == "auto"
    with pytest.raises(offspan.InputError, match="expected at least 40 rows, got 39"):
        offspan.make().fit(rows(39), hold_out=0)
    with pytest.raises(ValueError, match="neighbours has no meaning for auto"):
        OODDetector(options={"neighbours": 2}).fit(rows(30))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"method": "nope"}, "unknown method `nope`"),
        ({"method": "knnn"}, "did you mean knn"),
        ({"options": {"wings": 2}}, "wings: there is no such option"),
        ({"options": {"seed": 2}}, "expected no seed, which random_state gives"),
        ({"keep": 2.0}, "keep: expected"),
    ],
)
def test_bad_parameters_of_the_general_detector_are_errors_of_the_fit(bad, words):
    detector = OODDetector(**bad)
    with pytest.raises(ValueError, match=words):
        detector.fit(rows(100))
    with pytest.raises(NotFittedError):
        detector.score_samples(rows(10))


def test_a_clone_keeps_the_head_and_the_options():
    detector = OODDetector("vim", head=head_of(), options={"components": 3}).fit(rows(600))
    again = clone(detector).fit(rows(600))
    assert again.detector_ == detector.detector_
    assert pickle.loads(pickle.dumps(detector)).detector_ == detector.detector_


def test_the_general_detector_takes_its_place_in_pipelines_and_searches():
    X = np.vstack([rows(600), rows(100, 1), strange_rows(100)])
    y = np.repeat([1, 1, -1], [600, 100, 100])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), OODDetector()),
        {"ooddetector__method": ["auto", "knn", "pca"]},
        scoring="roc_auc",
        cv=[(np.arange(600), np.arange(600, 800))],
        refit=False,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.99


# --- what all of them share ----------------------------------------------------------------------

ALL = [KPCADetector(contamination=0.1), RandomFourierFeatures(features=50), Nystroem(landmarks=40)]


def result(estimator, X):
    return estimator.score_samples(X) if hasattr(estimator, "score_samples") else estimator.transform(X)


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
class TestAllOfThem:
    def test_pickles_give_the_same_numbers(self, estimator):
        fitted = clone(estimator).fit(rows(100))
        expected = result(fitted, rows(20, 1))
        # What is set after the fit belongs to the next one.
        fitted.set_params(kernel="laplacian", gamma=7.0)
        np.testing.assert_array_equal(result(pickle.loads(pickle.dumps(fitted)), rows(20, 1)), expected)

    def test_an_unfitted_one_can_be_pickled_and_says_that_it_is_unfitted(self, estimator):
        unfitted = pickle.loads(pickle.dumps(clone(estimator)))
        assert unfitted.get_params() == estimator.get_params()
        with pytest.raises(NotFittedError):
            result(unfitted, rows(10))

    def test_clones_are_unfitted_and_fit_to_the_same(self, estimator):
        fitted = clone(estimator).fit(rows(100))
        copy = clone(fitted)
        with pytest.raises(NotFittedError):
            result(copy, rows(10))
        np.testing.assert_array_equal(result(copy.fit(rows(100)), rows(10)), result(fitted, rows(10)))

    def test_a_failed_first_fit_leaves_it_unfitted(self, estimator):
        broken = clone(estimator).set_params(gamma=-1.0)
        with pytest.raises(ValueError, match="gamma"):
            broken.fit(rows(100))
        with pytest.raises(NotFittedError):
            result(broken, rows(10))

    def test_column_names_are_remembered_and_compared(self, estimator):
        pandas = pytest.importorskip("pandas")
        names = [f"unit{i}" for i in range(WIDTH)]
        frame = pandas.DataFrame(rows(100), columns=names)
        fitted = clone(estimator).fit(frame)
        assert list(fitted.feature_names_in_) == names
        np.testing.assert_array_equal(result(fitted, frame), result(clone(estimator).fit(rows(100)), rows(100)))
        with pytest.raises(ValueError, match="feature names"):
            result(fitted, frame[names[::-1]])


# --- the transformers ----------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [None, "structured", "orthogonal", "iid"])
def test_random_fourier_features_approach_the_gaussian_kernel(draw):
    X, gamma = 0.3 * rows(60), 0.4
    phi = RandomFourierFeatures(features=8192, gamma=gamma, draw=draw).fit_transform(X)
    # The standard error of a mean of 8192 terms of size 1 is 0.011; these are 1,830 pairs.
    assert np.abs(phi @ phi.T - rbf_kernel(X, gamma=gamma)).max() < 0.055


def test_every_draw_is_another_one():
    X = rows(5)
    maps = [RandomFourierFeatures(draw=draw).fit_transform(X) for draw in ("structured", "orthogonal", "iid")]
    assert all((a != b).any() for a, b in ((maps[0], maps[1]), (maps[1], maps[2]), (maps[0], maps[2])))
    np.testing.assert_array_equal(RandomFourierFeatures().fit_transform(X), maps[0])
    with pytest.raises(ValueError, match="draw"):
        RandomFourierFeatures(draw="lots").fit(X)
    with pytest.raises(ValueError, match="iid for the laplacian kernel"):
        RandomFourierFeatures(kernel="laplacian", draw="structured").fit(X)


def test_random_fourier_features_approach_the_laplacian_kernel():
    X, gamma = 0.3 * rows(60), 0.1
    phi = RandomFourierFeatures(features=8192, gamma=gamma, kernel="laplacian").fit_transform(X)
    assert np.abs(phi @ phi.T - laplacian_kernel(X, gamma=gamma)).max() < 0.055


def test_more_random_features_are_closer():
    X = 0.3 * rows(60)

    def error(features):
        phi = RandomFourierFeatures(features=features).fit_transform(X)
        return np.abs(phi @ phi.T - rbf_kernel(X, gamma=1.0)).mean()

    assert error(16384) < 0.25 * error(256)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-8)])
@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({"gamma": 0.02}, lambda a, b: rbf_kernel(a, b, gamma=0.02)),
        ({"gamma": 2.0}, lambda a, b: rbf_kernel(a, b, gamma=2.0)),
        ({"kernel": "laplacian", "gamma": 0.1}, lambda a, b: laplacian_kernel(a, b, gamma=0.1)),
        ({"kernel": "polynomial"}, lambda a, b: polynomial_kernel(a, b, degree=2, gamma=1.0, coef0=1.0)),
        ({"kernel": "linear"}, lambda a, b: a @ b.T),
    ],
    ids=["smooth", "sharp", "laplacian", "polynomial", "linear"],
)
def test_nystroem_with_all_rows_as_landmarks_is_exact(options, kernel, dtype, tolerance):
    X = 0.3 * rows(80, dtype=dtype)
    transformer = Nystroem(landmarks=80, **options).fit(X)
    assert transformer.transform(X).dtype == dtype
    phi = transformer.transform(X).astype(np.float64)
    exact = kernel(X.astype(np.float64), X.astype(np.float64))
    assert np.abs(phi @ phi.T - exact).max() < tolerance * np.abs(exact).max()


def test_nystroem_is_exact_between_its_landmarks_and_other_rows():
    X, others = 0.3 * rows(200), 0.3 * rows(50, seed=1)
    transformer = Nystroem(landmarks=40, gamma=0.5).fit(X)
    product = transformer.transform(transformer.landmarks_) @ transformer.transform(others).T
    np.testing.assert_allclose(product, rbf_kernel(transformer.landmarks_, others, gamma=0.5), atol=1e-8)
    np.testing.assert_array_equal(transformer.landmarks_, X[transformer.landmark_indices_])


@pytest.mark.parametrize(("options", "scaled"), [({}, 0.05), ({"kernel": "laplacian"}, 0.01)])
def test_nystroem_warns_of_rows_that_are_too_far_apart_for_gamma(options, scaled):
    digits = load_digits().data
    with pytest.warns(UserWarning, match="gamma=1 is too large for rows this far apart") as told:
        coordinates = Nystroem(landmarks=20, **options).fit_transform(digits)
    assert np.median(np.abs(coordinates).max(axis=1)) < 1e-3
    gamma = float(re.search(r"try gamma=([0-9.e-]+),", str(told[0].message))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coordinates = Nystroem(landmarks=20, gamma=gamma, **options).fit_transform(digits)
        assert np.median(np.linalg.norm(coordinates, axis=1)) > 0.3
        Nystroem(landmarks=20, **options).fit(scaled * digits)
        Nystroem(landmarks=20, kernel="linear").fit(digits)
        Nystroem(landmarks=1).fit(digits[:1])


def test_nystroem_warns_also_where_every_row_is_a_landmark():
    with pytest.warns(UserWarning, match="too large for rows this far apart"):
        Nystroem(gamma=1.0).fit(load_digits().data[:100])


def test_copies_and_dependent_landmarks_take_no_coordinates():
    X = np.repeat(rows(10), 3, axis=0)
    assert Nystroem(landmarks=30).fit_transform(X).shape == (30, 10)
    assert Nystroem(landmarks=100, kernel="linear").fit_transform(rows(100)).shape == (100, WIDTH)


@pytest.mark.parametrize(("sampling", "order"), [("low-energy", 1), ("high-energy", -1)])
def test_energy_landmarks_are_the_rows_at_the_end_of_the_order(sampling, order):
    logits = np.random.default_rng(0).normal(size=(100, 5))
    transformer = Nystroem(landmarks=10, sampling=sampling).fit(rows(100), logits=logits)
    expected = np.argsort(order * logsumexp(logits, axis=1))[:10]
    assert set(transformer.landmark_indices_) == set(expected)


def test_energy_sampling_without_logits_and_too_many_landmarks_are_errors():
    with pytest.raises(ValueError, match="energ"):
        Nystroem(landmarks=10, sampling="low-energy").fit(rows(100))
    with pytest.raises(ValueError, match="landmarks"):
        Nystroem(landmarks=101).fit(rows(100))


def test_uniform_landmarks_follow_the_seed():
    def chosen(seed):
        return Nystroem(landmarks=10, random_state=seed).fit(rows(100)).landmark_indices_.tolist()

    assert chosen(1) == chosen(1) != chosen(2)
    assert chosen(1) == sorted(set(chosen(1)))


@pytest.mark.parametrize("estimator", ALL[1:], ids=lambda estimator: type(estimator).__name__)
class TestTransformers:
    @pytest.mark.parametrize("fitted_on", [np.float16, np.float32, np.float64])
    def test_the_type_of_the_rows_decides_the_type_of_the_coordinates(self, estimator, fitted_on):
        fitted = clone(estimator).fit(0.3 * rows(100, dtype=fitted_on))
        types = [fitted.transform(rows(5, dtype=given)).dtype for given in (np.float16, np.float32, np.float64)]
        assert types == [np.float32, np.float32, np.float64]

    def test_columns_have_names(self, estimator):
        fitted = clone(estimator).fit(rows(100))
        names = fitted.get_feature_names_out()
        assert len(names) == fitted.transform(rows(5)).shape[1]
        assert names[0] == type(estimator).__name__.lower() + "0"

    def test_they_make_a_linear_model_nonlinear(self, estimator):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 2))
        inside = (X**2).sum(axis=1) < 1
        linear = LogisticRegression().fit(X[:300], inside[:300]).score(X[300:], inside[300:])
        pipeline = make_pipeline(clone(estimator), LogisticRegression(C=100.0)).fit(X[:300], inside[:300])
        assert linear < 0.8 < 0.9 < pipeline.score(X[300:], inside[300:])
