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
];

const PAPER: &str =
    "Kernel PCA for Out-of-Distribution Detection: Non-Linear Kernel Selection and Approximation";
const GOLDEN: &str = "float64 golden scores, within 1e-4 in f32 and 1e-6 in f64";

/// Every method.
pub const CATALOGUE: &[MethodInfo] = &[
    MethodInfo {
        name: "pca",
        summary: "residual of (cosine) PCA: the linear kernel",
        needs: "features only",
        parameters: &[COSINE, parameter("--explained-variance", "0.9"), COMPONENTS, REACT, FUSE],
        source: PAPER,
        parity: GOLDEN,
    },
    MethodInfo {
        name: "kpca-nys",
        summary: "kernel PCA through landmarks (Nyström), any kernel",
        needs: "features; logits or head for low-energy and high-energy sampling",
        parameters: &[
            parameter("--kernel", "gaussian"),
            GAMMA,
            DEGREE,
            COEF0,
            COSINE,
            parameter("--landmarks", "1024"),
            parameter("--sampling", "low-energy"),
            parameter("--landmark-rows", "none"),
            parameter("--residual", "plain"),
            parameter("--rank-floor", "1e-12"),
            parameter("--rank-rule", "drop"),
            EXPLAINED,
            COMPONENTS,
            REACT,
            FUSE,
            SEED,
        ],
        source: PAPER,
        parity: GOLDEN,
    },
    MethodInfo {
        name: "kpca-rff",
        summary: "kernel PCA through random Fourier features, gaussian or laplacian",
        needs: "features only",
        parameters: &[
            parameter("--kernel", "gaussian"),
            parameter("--gamma", "gaussian 2, laplacian 0.05; to be given with --no-cosine"),
            COSINE,
            parameter("--features", "2048"),
            parameter("--draw", "structured (laplacian: iid)"),
            parameter("--frequencies", "none"),
            parameter("--explained-variance", "0.8"),
            COMPONENTS,
            REACT,
            FUSE,
            SEED,
        ],
        source: PAPER,
        parity: GOLDEN,
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
        ],
        source: PAPER,
        parity: "inner products against the kernel they approximate",
    },
    MethodInfo {
        name: "kpca-exact",
        summary: "kernel PCA from the full kernel matrix, for up to 20,000 rows",
        needs: "features only",
        parameters: EXACT,
        source: PAPER,
        parity: GOLDEN,
    },
    MethodInfo {
        name: "kpca-exact-prop2",
        summary: "the residual as Proposition 2 of the paper prints it: neither centred nor scaled",
        needs: "features only",
        parameters: EXACT,
        source: PAPER,
        parity: GOLDEN,
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
        ],
        source: "a table row of the paper; the rule is offspan's own, from in-distribution rows only",
        parity: "members are; no reference for the sum exists",
    },
    MethodInfo {
        name: "energy",
        summary: "logsumexp of the logits",
        needs: "logits, or features and head",
        parameters: &[parameter("--temperature", "1")],
        source: "Liu et al., Energy-based Out-of-distribution Detection, 2020",
        parity: "float64 golden scores, within 1e-6",
    },
    MethodInfo {
        name: "knn",
        summary: "distance to the k-th nearest training row, on unit vectors",
        needs: "features only; the file holds every training row (4 bytes × rows × width)",
        parameters: &[parameter("--neighbours", "50")],
        source: "Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, 2022",
        parity: "float64 golden scores, within 1e-4",
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
