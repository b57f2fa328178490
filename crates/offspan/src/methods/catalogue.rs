//! The list of methods that `offspan methods` prints.

use serde::Serialize;

/// A method's entry.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MethodInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What a sample must carry.
    pub needs: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Where it comes from.
    pub source: &'static str,
    /// How it was checked.
    pub parity: &'static str,
    /// Whether it is a step that can come before any score, as in `knn+react`.
    pub is_step: bool,
}

impl MethodInfo {
    /// Whether the method has this flag.
    #[must_use]
    pub fn takes(&self, flag: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.flag == flag)
    }
}

/// A parameter with its default.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Parameter {
    /// The flag.
    pub flag: &'static str,
    /// Its default, in words where it depends on something.
    pub default: &'static str,
}

const fn parameter(flag: &'static str, default: &'static str) -> Parameter {
    Parameter { flag, default }
}

const COSINE: Parameter = parameter("--no-cosine", "off: rows are scaled to unit length");
const EXPLAINED: Parameter = parameter("--explained-variance", "0.99");
const COMPONENTS: Parameter = parameter("--components", "none: q from the explained variance");
const REACT: Parameter = parameter("--react", "none");
const FUSE: Parameter = parameter("--fuse", "none");
const GAMMA: Parameter =
    parameter("--gamma", "gaussian 1, laplacian 0.05; to be given with --no-cosine");
const DEGREE: Parameter = parameter("--degree", "2");
const COEF0: Parameter = parameter("--coef0", "1");
const SEED: Parameter = parameter("--seed", "0");
const PRECISION: Parameter = parameter("--precision", "f32");
const WEIGHTS: Parameter = parameter("--weights", "full");

const EXACT: &[Parameter] = &[
    parameter("--kernel", "gaussian"),
    GAMMA,
    DEGREE,
    COEF0,
    COSINE,
    EXPLAINED,
    COMPONENTS,
    REACT,
    FUSE,
    PRECISION,
    WEIGHTS,
];

const GAUSSIAN: Parameter = parameter("--kernel", "gaussian");

/// Kernel PCA through landmarks: what comes before them, and the defaults that differ.
macro_rules! nystrom {
    ([$($kernel:expr),*], $react:literal, $fuse:literal) => {
        &[
            $($kernel,)*
            parameter("--landmarks", "1024"),
            parameter("--sampling", "low-energy"),
            parameter("--landmark-rows", "none"),
            parameter("--residual", "plain"),
            parameter("--rank-floor", "1e-12"),
            parameter("--rank-rule", "drop"),
            EXPLAINED,
            COMPONENTS,
            parameter("--react", $react),
            parameter("--fuse", $fuse),
            SEED,
            PRECISION,
            WEIGHTS,
        ]
    };
}

/// The same for random features.
macro_rules! fourier {
    ($react:literal, $fuse:literal) => {
        &[
            GAUSSIAN,
            parameter("--gamma", "gaussian 2, laplacian 0.05; to be given with --no-cosine"),
            COSINE,
            parameter("--features", "2048"),
            parameter("--draw", "structured (laplacian: iid)"),
            parameter("--frequencies", "none"),
            parameter("--explained-variance", "0.8"),
            COMPONENTS,
            parameter("--react", $react),
            parameter("--fuse", $fuse),
            SEED,
            PRECISION,
            WEIGHTS,
        ]
    };
}

const PAPER: &str =
    "Kernel PCA for Out-of-Distribution Detection: Non-Linear Kernel Selection and Approximation";
const LEARNED: &str = "the paper, appendix on learnable kernels";
const GOLDEN: &str = "float64 golden scores, within 1e-4 in f32 and 1e-6 in f64";
const GOLDEN_BASELINE: &str = "float64 golden scores, within 1e-4";
const PARTS: &str =
    "NumPy float64 on a fixture of our own; its parts also against float64 golden scores";

/// Every method.
pub const CATALOGUE: &[MethodInfo] = &[
    MethodInfo {
        name: "auto",
        summary: "kernel PCA and energy joined, everything decided from in-distribution rows",
        needs: "features only; better with logits, best with the last layer",
        parameters: &[
            parameter("--gamma", "0.5 over the median squared distance; 4 over it without logits"),
            parameter("--landmarks", "256 to 2048, until more change nothing"),
            parameter(
                "--explained-variance",
                "0.99, with at most a fifth as many directions as landmarks",
            ),
            SEED,
            PRECISION,
            WEIGHTS,
        ],
        source: "offspan",
        parity: "NumPy float64 reference to 1e-6",
        is_step: false,
    },
    MethodInfo {
        name: "pca",
        summary: "residual of (cosine) PCA: the linear kernel",
        needs: "features only",
        parameters: &[
            COSINE,
            parameter("--explained-variance", "0.9"),
            COMPONENTS,
            REACT,
            FUSE,
            PRECISION,
            WEIGHTS,
        ],
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-nys",
        summary: "kernel PCA through landmarks (Nyström), any kernel",
        needs: "features; logits or head for low-energy and high-energy sampling",
        parameters: nystrom!([GAUSSIAN, GAMMA, DEGREE, COEF0, COSINE], "none", "none"),
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-rff",
        summary: "kernel PCA through random Fourier features, gaussian or laplacian",
        needs: "features only",
        parameters: fourier!("none", "none"),
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-nys+react",
        summary: "kpca-nys of activations cut by ReAct, fused with their energy: E / e",
        needs: "features and head",
        parameters: nystrom!([GAUSSIAN, GAMMA, DEGREE, COEF0, COSINE], "p90", "energy-ratio"),
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-rff+react",
        summary: "kpca-rff of activations cut by ReAct, fused with their energy: (1 − e)·E",
        needs: "features and head",
        parameters: fourier!("p90", "energy-product"),
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-sketch",
        summary: "kernel PCA through a tensor sketch of the polynomial kernel",
        needs: "features only",
        parameters: &[
            DEGREE,
            COEF0,
            COSINE,
            parameter("--features", "2048"),
            EXPLAINED,
            COMPONENTS,
            REACT,
            FUSE,
            SEED,
            PRECISION,
            WEIGHTS,
        ],
        source: PAPER,
        parity: "inner products against the kernel they approximate",
        is_step: false,
    },
    MethodInfo {
        name: "kpca-exact",
        summary: "kernel PCA from the full kernel matrix, for up to 20,000 rows",
        needs: "features only",
        parameters: EXACT,
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-exact-prop2",
        summary: "the residual as Proposition 2 of the paper prints it: neither centred nor scaled",
        needs: "features only",
        parameters: EXACT,
        source: PAPER,
        parity: GOLDEN,
        is_step: false,
    },
    MethodInfo {
        name: "kpca-ensemble",
        summary: "mean of kpca-rff and kpca-nys, each standardised by its scores on training rows",
        needs: "as kpca-nys",
        parameters: &[
            parameter("--kernel", "gaussian"),
            parameter("--gamma", "of the Nyström member: gaussian 1, laplacian 0.05"),
            parameter("--rff-gamma", "of the random-feature member: gaussian 2, laplacian 0.05"),
            COSINE,
            parameter("--landmarks", "1024"),
            parameter("--sampling", "low-energy"),
            parameter("--landmark-rows", "none"),
            parameter("--residual", "plain (of the Nyström member)"),
            parameter("--rank-floor", "1e-12"),
            parameter("--rank-rule", "drop"),
            parameter("--explained-variance", "of the Nyström member: 0.99"),
            parameter("--components", "of the Nyström member: none"),
            parameter("--features", "2048"),
            parameter("--draw", "structured (laplacian: iid)"),
            parameter("--frequencies", "none"),
            parameter("--rff-explained-variance", "of the random-feature member: 0.8"),
            REACT,
            FUSE,
            SEED,
            PRECISION,
            WEIGHTS,
        ],
        source: "a table row of the paper; the rule is offspan's own, from in-distribution rows only",
        parity: "members are; no reference for the sum exists",
        is_step: false,
    },
    MethodInfo {
        name: "msp",
        summary: "largest softmax probability",
        needs: "logits, or features and head",
        parameters: &[],
        source: "Hendrycks & Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples, 2017",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "max-logit",
        summary: "largest logit",
        needs: "logits, or features and head",
        parameters: &[],
        source: "Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, 2022",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "energy",
        summary: "logsumexp of the logits",
        needs: "logits, or features and head",
        parameters: &[parameter("--temperature", "1")],
        source: "Liu et al., Energy-based Out-of-distribution Detection, 2020",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "odin",
        summary: "largest softmax probability at a high temperature; without the perturbation of the input, which needs the network",
        needs: "logits, or features and head",
        parameters: &[parameter("--temperature", "1000")],
        source: "Liang et al., Enhancing the Reliability of Out-of-distribution Image Detection, 2018",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "gradnorm",
        summary: "L1 norm of the last layer's gradient, in closed form",
        needs: "features; logits or head",
        parameters: &[],
        source: "Huang et al., On the Importance of Gradients for Detecting Distributional Shifts, 2021",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "mahalanobis",
        summary: "distance to the nearest class mean under one covariance",
        needs: "features and labels",
        parameters: &[],
        source: "Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples, 2018",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "mahalanobis-pp",
        summary: "the same on unit vectors",
        needs: "features and labels",
        parameters: &[],
        source: "Mueller & Hein, Mahalanobis++, 2025",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "ssd",
        summary: "Mahalanobis distance of standardised unit vectors to their mean",
        needs: "features only",
        parameters: &[],
        source: "Sehwag et al., SSD: A Unified Framework for Self-Supervised Outlier Detection, 2021",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "knn",
        summary: "distance to the k-th nearest training row, on unit vectors",
        needs: "features only; the file holds the bank (4 bytes × rows × width)",
        parameters: &[
            parameter("--neighbours", "50"),
            parameter("--bank", "1: every training row"),
            SEED,
        ],
        source: "Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, 2022",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "tnn",
        summary: "distance to the tangent plane through the nearest training rows",
        needs: "features only; the file holds the bank (4 bytes × rows × width)",
        parameters: &[
            parameter("--neighbours", "10"),
            parameter("--tangents", "5"),
            parameter("--bank", "1: every training row"),
            SEED,
        ],
        source: "the paper's table; from the description of tangent distances",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "nnguide",
        summary: "energy times the mean energy-scaled similarity to the nearest training rows",
        needs: "features; logits or head; the file holds the bank (4 bytes × rows × width)",
        parameters: &[
            parameter("--neighbours", "10"),
            parameter("--bank", "1 % of the training rows, but at least 10,000 of them"),
            SEED,
        ],
        source: "Park et al., Nearest Neighbor Guidance for Out-of-Distribution Detection, 2023",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "she",
        summary: "product with the mean feature of the predicted class",
        needs: "features, labels; logits or head",
        parameters: &[],
        source: "Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization, 2023",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "vim",
        summary: "energy minus the scaled residual of a subspace",
        needs: "features and head",
        parameters: &[
            parameter(
                "--components",
                "1000 if the width is at least 2048, 512 from 768 on, else half of it",
            ),
            parameter("--head-floor", "2^-23: the last layer is known to f32 precision"),
        ],
        source: "Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, 2022",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "dml",
        summary: "largest cosine with a class's weights, plus the weighted norm",
        needs: "features and head",
        parameters: &[parameter("--norm-weight", "0.002")],
        source: "Zhang & Xiang, Decoupling MaxLogit for Out-of-Distribution Detection, 2023",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "gradorth",
        summary: "the last layer's gradient within the subspace of the training rows",
        needs: "features; logits or head",
        parameters: &[parameter("--explained-variance", "0.97")],
        source: "Behpour et al., GradOrth, 2023",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "reg-pca",
        summary: "energy times one minus the relative residual of PCA",
        needs: "features; logits or head",
        parameters: &[parameter("--components", "256, or half the width where that is less")],
        source: "Guan et al., Revisit PCA-based Technique for Out-of-Distribution Detection, 2023",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "low-dim",
        summary: "energy of a linear probe on low-dimensional last-layer gradients",
        needs: "features, labels; logits or head; classes² × width numbers of memory",
        parameters: &[parameter("--ridge", "0.01")],
        source: "Wu et al., Low-Dimensional Gradient Helps Out-of-Distribution Detection, 2024",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "react",
        summary: "activations cut at a value, then the energy",
        needs: "features and head",
        parameters: &[parameter("--react", "p90")],
        source: "Sun et al., ReAct: Out-of-distribution Detection With Rectified Activations, 2021",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "bats",
        summary: "each channel kept within its typical range, then the energy",
        needs: "features and head",
        parameters: &[parameter("--deviations", "3.25")],
        source: "Zhu et al., Boosting Out-of-distribution Detection with Typical Features, 2022",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "vra",
        summary: "low activations set to 0 and high ones cut, then the energy",
        needs: "features and head; made for features that are never negative",
        parameters: &[parameter("--vra", "q0.6,q0.9: quantiles of each channel")],
        source: "Xu et al., VRA: Variational Rectified Activation, 2023",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "ash-b",
        summary: "the largest activations of a row become equal, the rest 0, then the energy",
        needs: "features and head; made for features that are never negative",
        parameters: &[parameter("--prune", "65: percent of the activations")],
        source: "Djurisic et al., Extremely Simple Activation Shaping, 2023",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "ash-p",
        summary: "all but the largest activations of a row become 0, then the energy",
        needs: "features and head; made for features that are never negative",
        parameters: &[parameter("--prune", "65: percent of the activations")],
        source: "Djurisic et al., Extremely Simple Activation Shaping, 2023",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "ash-s",
        summary: "all but the largest activations of a row become 0 and those grow, then the energy",
        needs: "features and head; made for features that are never negative",
        parameters: &[parameter("--prune", "90: percent of the activations")],
        source: "Djurisic et al., Extremely Simple Activation Shaping, 2023",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "scale",
        summary: "a row grows with the share of its largest activations, then the energy",
        needs: "features and head; made for features that are never negative",
        parameters: &[parameter("--prune", "85: percent of the activations")],
        source: "Xu et al., Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement, 2024",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "dice",
        summary: "only weights that contribute much stay, then the energy",
        needs: "features and head",
        parameters: &[parameter("--sparsity", "90: percent of the weights")],
        source: "Sun & Li, DICE: Leveraging Sparsification for Out-of-Distribution Detection, 2022",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "line",
        summary: "only activations and weights that matter for the predicted class stay, then the energy",
        needs: "features, labels and head; made for features that are never negative",
        parameters: &[
            parameter("--line", "90,90: percent of activations, of weights"),
            parameter("--line-clip", "1"),
        ],
        source: "Ahn et al., LINe: Out-of-Distribution Detection by Leveraging Important Neurons, 2023",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "ddcs",
        summary: "shaped activations of the channels that tell classes apart, then the energy",
        needs: "features, labels and head; made for features that are never negative",
        parameters: &[
            parameter("--shape", "20,90: percentiles"),
            parameter("--balance", "0.8"),
            parameter("--channels", "0.82: share that stays"),
        ],
        source: "Yuan et al., Discriminability-Driven Channel Selection for Out-of-Distribution Detection, 2024",
        parity: GOLDEN_BASELINE,
        is_step: true,
    },
    MethodInfo {
        name: "dice+react",
        summary: "DICE's weights on activations cut by ReAct, then the energy",
        needs: "features and head",
        parameters: &[
            parameter("--sparsity", "10: percent of the weights"),
            parameter("--react", "p90"),
        ],
        source: "Sun & Li, DICE, 2022",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "gradnorm+react",
        summary: "gradnorm of activations cut by ReAct",
        needs: "features and head",
        parameters: &[parameter("--react", "p90")],
        source: "a table row of the paper",
        parity: PARTS,
        is_step: false,
    },
    MethodInfo {
        name: "nnguide+react",
        summary: "nnguide of activations cut by ReAct",
        needs: "features and head",
        parameters: &[
            parameter("--neighbours", "10"),
            parameter("--bank", "1 % of the training rows, but at least 10,000 of them"),
            parameter("--react", "p90"),
            SEED,
        ],
        source: "Park et al., Nearest Neighbor Guidance, 2023",
        parity: PARTS,
        is_step: false,
    },
    MethodInfo {
        name: "reg-pca+react",
        summary: "reg-pca of activations cut by ReAct",
        needs: "features and head",
        parameters: &[
            parameter("--components", "256, or half the width where that is less"),
            parameter("--react", "p90"),
            parameter("--raw-fit", "off: mean and directions from cut activations, too"),
        ],
        source: "Guan et al., Revisit PCA-based Technique, 2023",
        parity: GOLDEN_BASELINE,
        is_step: false,
    },
    MethodInfo {
        name: "low-dim+react",
        summary: "low-dim of activations cut by ReAct",
        needs: "features, labels and head; classes² × width numbers of memory",
        parameters: &[parameter("--ridge", "0.01"), parameter("--react", "p90")],
        source: "Wu et al., Low-Dimensional Gradient, 2024",
        parity: PARTS,
        is_step: false,
    },
    MethodInfo {
        name: "rank-feat",
        summary: "energy of feature maps without their leading singular part",
        needs: "head; un-pooled `maps` [rows, channels, height, width]",
        parameters: &[],
        source: "Song et al., RankFeat: Rank-1 Feature Removal for Out-of-distribution Detection, 2022",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "rank-feat+rank-weight",
        summary: "the same, and the last convolution loses the leading part of its weights, too",
        needs: "head with `block.weight`, `block.scale`, `block.shift`; `block_input` [rows, channels, height, width]; `block_shortcut` where the block has one",
        parameters: &[],
        source: "Song et al., RankFeat & RankWeight, 2024",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "knn-plus",
        summary: "knn on the features of a network trained with a contrastive loss",
        needs: "`supcon` [rows, width]: features of a SupCon network",
        parameters: &[
            parameter("--neighbours", "50"),
            parameter("--bank", "1: every training row"),
            SEED,
        ],
        source: "Sun et al., 2022",
        parity: "as knn",
        is_step: false,
    },
    MethodInfo {
        name: "ssd-plus",
        summary: "ssd on the features of a network trained with a contrastive loss",
        needs: "`supcon` [rows, width]: features of a SupCon network",
        parameters: &[],
        source: "Sehwag et al., 2021",
        parity: "as ssd",
        is_step: false,
    },
    MethodInfo {
        name: "mcf",
        summary: "largest cosine logit of a network trained with the focal loss",
        needs: "`focal_cosines` [rows, classes]: its cosine logits",
        parameters: &[],
        source: "Zhang & Xiang, Decoupling MaxLogit, 2023",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "mnc",
        summary: "feature norm of a network trained with the centre loss",
        needs: "`centre_features` [rows, width]: its features",
        parameters: &[],
        source: "Zhang & Xiang, Decoupling MaxLogit, 2023",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "dml-plus",
        summary: "3·MCF/mean(MCF) + MNC/mean(MNC), means over training rows",
        needs: "`focal_cosines` and `centre_features`",
        parameters: &[],
        source: "Zhang & Xiang, Decoupling MaxLogit, 2023",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "godin",
        summary: "largest output of the h head of a Generalized ODIN network",
        needs: "`godin_h` [rows, classes]: its h head, at the perturbed input",
        parameters: &[],
        source: "Hsu et al., Generalized ODIN, 2020",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "csi",
        summary: "similarity to training rows over shifted views",
        needs: "`csi_features` [rows, views, width]: contrastive features of each view; `csi_shift_logits` [rows, views] where the network has a shift classifier; the file holds the bank (4 bytes × rows × views × width)",
        parameters: &[],
        source: "Tack et al., CSI: Novelty Detection via Contrastive Learning on Distributionally Shifted Instances, 2020",
        parity: "NumPy float64 on a fixture of our own; no public scores exist",
        is_step: false,
    },
    MethodInfo {
        name: "autoencoder",
        summary: "reconstruction error of a shallow autoencoder, trained until rows held aside stop improving",
        needs: "features only",
        parameters: &[
            parameter("--hidden", "half the width"),
            parameter("--code", "a quarter of the width"),
            parameter("--epochs", "50 at most"),
            SEED,
        ],
        source: LEARNED,
        parity: "gradients against differences; no reference for the weights exists",
        is_step: false,
    },
    MethodInfo {
        name: "rff-opt",
        summary: "kpca-rff on the random features that agree with the labels",
        needs: "features and labels",
        parameters: &[
            parameter("--rho", "1"),
            parameter("--kernel", "gaussian"),
            parameter("--gamma", "gaussian 2, laplacian 0.05; to be given with --no-cosine"),
            COSINE,
            parameter("--features", "4096 to choose from"),
            parameter("--draw", "orthogonal (laplacian: iid)"),
            parameter("--explained-variance", "0.95"),
            COMPONENTS,
            REACT,
            FUSE,
            SEED,
            PRECISION,
            WEIGHTS,
        ],
        source: LEARNED,
        parity: "its optimum against a slow solver and the conditions of optimality",
        is_step: false,
    },
    MethodInfo {
        name: "dkgp-rff",
        summary: "kpca-rff with a γ learned by a sparse variational Gaussian-process classifier",
        needs: "features and labels",
        parameters: &[
            parameter("--gamma", "1: where the search starts"),
            parameter("--inducing", "256"),
            parameter("--steps", "600 at most"),
            parameter("--features", "2048"),
            parameter("--draw", "structured"),
            parameter("--explained-variance", "0.8"),
            COMPONENTS,
            REACT,
            FUSE,
            SEED,
            PRECISION,
            WEIGHTS,
        ],
        source: LEARNED,
        parity: "gradients against differences; no reference for γ exists",
        is_step: false,
    },
    MethodInfo {
        name: "dkgp-nys",
        summary: "kpca-nys with a γ learned by a sparse variational Gaussian-process classifier",
        needs: "features and labels; logits or head for low-energy and high-energy sampling",
        parameters: nystrom!(
            [
                parameter("--gamma", "1: where the search starts"),
                parameter("--inducing", "256"),
                parameter("--steps", "600 at most")
            ],
            "none",
            "none"
        ),
        source: LEARNED,
        parity: "gradients against differences; no reference for γ exists",
        is_step: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = CATALOGUE.iter().map(|method| method.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
    }
}
