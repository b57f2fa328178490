//! Two-dimensional pictures of many-dimensional rows.
//!
//! A picture starts from the squared distances of all pairs of rows: those of the rows themselves
//! ([`squared_distances`]) or of their images in a kernel's feature space.
//!
//! | picture | keeps | quality |
//! |---|---|---|
//! | [`Tsne`] | who is near whom | KL divergence, 0 is perfect |
//! | [`Mds`] | the distances themselves | normalised stress, 0 is perfect |
//!
//! [`trustworthiness`] judges either: whether neighbours in the picture are neighbours in truth.
//!
//! Both are exact methods with time and memory of order n², meant for some thousand points. The
//! same input gives the same picture, to the bit, on any number of threads. Pictures are centred,
//! spread most along the first axis, and do not flip between runs.
//!
//! ```
//! use ndarray::array;
//! use offspan_report::embed::{Mds, squared_distances};
//!
//! let rows = array![[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [4.0, 3.0, 1.0], [0.0, 3.0, 1.0]];
//! let picture = Mds::default().fit(squared_distances(rows.view()).view(), &|_, _| true)?;
//!
//! assert_eq!(picture.points.dim(), (4, 2));
//! assert!(picture.quality < 1e-9); // the rows lie in a plane: nothing is lost
//! # Ok::<(), offspan_report::embed::EmbedError>(())
//! ```

mod affinity;
mod classical;
mod descent;
mod distances;
mod error;
mod gradient;
mod lanes;
mod mds;
mod orient;
mod pairs;
mod plane;
mod random;
mod small_eigen;
mod trust;
mod tsne;

pub use distances::squared_distances;
pub use error::EmbedError;
pub use mds::Mds;
pub use trust::trustworthiness;
pub use tsne::Tsne;

use ndarray::Array2;

/// A finished picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// One point per row of the input: n × 2, centred, with the wider spread along the first axis.
    pub points: Array2<f64>,
    /// How much was lost: the KL divergence for [`Tsne`], the normalised stress for [`Mds`].
    pub quality: f64,
    /// Iterations that were made.
    pub iterations: usize,
}

/// Hears how many steps are done, and of how many; answers whether to go on.
pub type Progress<'a> = &'a dyn Fn(usize, usize) -> bool;
