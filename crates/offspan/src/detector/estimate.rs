//! What a fit will take: rows, passes, memory and time, before it begins.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ndarray::ArrayViewMut2;

use super::{Detector, FitOptions, check_options};
use crate::io::{Dataset, FeatureSource, Gathered, Head, Labels, MemoryLimit, memory_limit};
use crate::methods::FitSize;
use crate::{Error, MethodSpec, Result};

/// Rows of the two small fits that passes and time are taken from.
const FEW: usize = 1000;
const MORE: usize = 3000;

/// What a fit will take.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FitEstimate {
    /// Rows of the training set.
    pub rows: usize,
    /// Width of its features.
    pub width: usize,
    /// Times that every row is read.
    pub passes: f64,
    /// Bytes at the peak, beside what the program itself takes.
    pub memory: u64,
    /// What there is: the tightest limit, or the machine's own; none if the system does not tell.
    pub limit: Option<MemoryLimit>,
    /// Seconds of the fit on this machine.
    pub seconds: f64,
    /// Rows of the fits that passes and time were measured with.
    pub measured_rows: usize,
}

impl FitEstimate {
    /// Looks at the parameters for the memory, and fits to some of the rows for passes and time.
    ///
    /// # Errors
    /// If an input is missing or bad, or the observer asks to stop.
    pub fn of(
        spec: &MethodSpec,
        data: &Dataset<'_>,
        head: Option<&Head>,
        options: &FitOptions<'_>,
    ) -> Result<Self> {
        check_options(data, head, options)?;
        let (rows, width) = (data.rows(), data.width());
        let memory = needed(spec, data, head)?;
        let mut estimate = FitEstimate {
            rows,
            width,
            passes: 0.0,
            memory,
            limit: memory_limit(),
            seconds: 0.0,
            measured_rows: MORE.min(rows),
        };
        if !estimate.fits() {
            // A small fit may be too large, too.
            return Ok(estimate);
        }
        let more = Measured::of(spec, data, head, options, MORE.min(rows))?;
        if rows <= MORE {
            estimate.passes = more.reads / rows as f64;
            estimate.seconds = more.seconds;
            return Ok(estimate);
        }
        let few = Measured::of(spec, data, head, options, FEW)?;
        estimate.passes = (more.reads - few.reads) / (MORE - FEW) as f64;
        estimate.seconds = extrapolated(few.seconds, more.seconds, rows);
        Ok(estimate)
    }

    /// Whether it fits into the limit.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.limit.is_none_or(|limit| self.memory <= limit.available)
    }
}

/// Seconds for all rows from those of two small fits: a line, or a power where time grows faster than the rows.
fn extrapolated(few: f64, more: f64, rows: usize) -> f64 {
    let (ratio, rows) = (MORE as f64 / FEW as f64, rows as f64);
    if few > 0.0 && more / few > 1.2 * ratio {
        let power = (more / few).ln() / ratio.ln();
        return more * (rows / MORE as f64).powf(power);
    }
    let slope = ((more - few) / (MORE - FEW) as f64).max(0.0);
    more + slope * (rows - MORE as f64)
}

/// Bytes that a fit takes at its peak.
fn needed(spec: &MethodSpec, data: &Dataset<'_>, head: Option<&Head>) -> Result<u64> {
    let of_logits = data.logits.as_ref().map(|logits| logits.width());
    let classes = of_logits.or(head.map(Head::classes)).unwrap_or(0);
    let size = FitSize { rows: data.rows(), width: data.width(), classes };
    Ok(spec.check()?.memory(&size))
}

/// Fails if a fit needs more memory than there is.
pub(super) fn check_memory(
    spec: &MethodSpec,
    data: &Dataset<'_>,
    head: Option<&Head>,
    limit: Option<MemoryLimit>,
) -> Result<()> {
    let Some(MemoryLimit { available, set_by }) = limit else { return Ok(()) };
    let needed = needed(spec, data, head)?;
    if needed <= available {
        return Ok(());
    }
    let (rows, width) = (data.rows(), data.width());
    let method = spec.method().into_owned();
    Err(Error::Memory { method, rows, width, needed, available, set_by })
}

/// What a fit to some of the rows took.
struct Measured {
    reads: f64,
    seconds: f64,
}

impl Measured {
    fn of(
        spec: &MethodSpec,
        data: &Dataset<'_>,
        head: Option<&Head>,
        options: &FitOptions<'_>,
        count: usize,
    ) -> Result<Self> {
        // Spread over all, so that every class has some.
        let rows: Vec<usize> = (0..count).map(|i| i * data.rows() / count).collect();
        let names: Vec<&str> = data.extras().keys().map(String::as_str).collect();
        let gathered = Gathered::new(data, &rows, &names)?;
        let gathered = gathered.dataset()?;
        let reads = AtomicU64::new(0);
        let counted = Counted { rows: &*gathered.features, reads: &reads };
        let mut some = Dataset::new(data.name.clone(), counted);
        if let Some(logits) = &gathered.logits {
            some = some.with_logits(&**logits)?;
        }
        if let Some(labels) = &data.labels {
            let of_row = |&row: &usize| Ok(labels.read(row..row + 1)?[0]);
            let labels = rows.iter().map(of_row).collect::<Result<Vec<i64>>>()?;
            some = some.with_labels(Labels::from(&labels[..]))?;
        }
        for (name, extra) in gathered.extras() {
            some = some.with_extra(name.clone(), &*extra.rows, &extra.shape)?;
        }
        let options =
            FitOptions { checkpoint: None, calibrate: None, hold_out: Some(0.0), ..*options };
        let started = Instant::now();
        Detector::fit(spec, &some, head, &options)?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Measured { reads: reads.load(Ordering::Relaxed) as f64, seconds })
    }
}

/// Rows that know how many of them were read.
struct Counted<'a> {
    rows: &'a dyn FeatureSource,
    reads: &'a AtomicU64,
}

impl FeatureSource for Counted<'_> {
    fn rows(&self) -> usize {
        self.rows.rows()
    }

    fn width(&self) -> usize {
        self.rows.width()
    }

    fn name(&self) -> &str {
        self.rows.name()
    }

    fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()> {
        self.reads.fetch_add(out.nrows() as u64, Ordering::Relaxed);
        self.rows.read_f32(start, out)
    }

    fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()> {
        self.reads.fetch_add(out.nrows() as u64, Ordering::Relaxed);
        self.rows.read_f64(start, out)
    }

    fn prefetch(&self, rows: Range<usize>) {
        self.rows.prefetch(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    fn rows(count: usize, width: usize) -> Array2<f32> {
        Array2::from_shape_fn((count, width), |(i, j)| {
            ((i * 7 + j * j * 3 + i * j) % 13) as f32 + 0.5
        })
    }

    fn estimate(method: &str, count: usize) -> FitEstimate {
        let rows = rows(count, 16);
        let spec = MethodSpec::named(method).unwrap();
        let data = Dataset::new("x", rows.view());
        FitEstimate::of(&spec, &data, None, &FitOptions::default()).unwrap()
    }

    #[test]
    fn passes_are_those_of_the_method() {
        let pca = estimate("pca", 5000);
        assert_eq!((pca.rows, pca.width, pca.passes.round()), (5000, 16, 1.0));
        assert!(pca.seconds >= 0.0 && pca.fits());
        assert!(estimate("knn", 500).passes >= 1.0, "few rows are all fitted to");
    }

    #[test]
    fn time_grows_by_a_line_or_a_power() {
        assert_eq!(extrapolated(1.0, 3.0, 300_000), 300.0);
        assert_eq!(extrapolated(2.0, 2.0, 300_000), 2.0, "what does not grow stays");
        let cubic = extrapolated(1.0, 27.0, 30_000);
        assert!((cubic - 27_000.0).abs() < 1.0, "{cubic}");
    }

    #[test]
    fn too_little_memory_is_told_with_what_it_would_take() {
        let rows = rows(100_000, 256);
        let data = Dataset::new("x", rows.view());
        let spec = MethodSpec::named("knn").unwrap();
        let limit = |available| Some(MemoryLimit { available, set_by: "a test" });
        check_memory(&spec, &data, None, limit(200_000_000)).unwrap();
        check_memory(&spec, &data, None, None).unwrap();
        let error = check_memory(&spec, &data, None, limit(50_000_000)).unwrap_err().to_string();
        assert!(error.contains("about 103 MB") && error.contains("50 MB"), "{error}");
    }
}
