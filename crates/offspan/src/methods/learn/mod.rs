//! What the paper's appendix learns from the training rows instead of setting it by hand.
//!
//! | method | learns | then |
//! |---|---|---|
//! | [`autoencoder`] | a shallow autoencoder | scores by its reconstruction error |
//! | [`rff_opt`] | which random features agree with the labels | kernel PCA on those |
//! | [`dkgp`] | the gaussian kernel's γ, by a variational bound on the evidence | kernel PCA with it |
//!
//! All three read minibatches or blocks of rows, so memory does not grow with the rows times their
//! width. Gradients are written out by hand and tested against finite differences. Work that runs in
//! parallel is split by shapes alone, so the number of threads does not change a bit.

mod adam;
mod autoencoder;
mod classes;
mod dkgp;
mod learned_kpca;
mod plateau;
mod rff_opt;
mod rows;

pub use autoencoder::AutoencoderParams;
pub use dkgp::{DkgpKpcaParams, DkgpParams};
pub use rff_opt::RffOptParams;
