//! Checkpoints: the moments so far and where the pass stands, so that a killed fit can go on.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use ndarray::Array2;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::io::observer::Observer;
use crate::io::{Content, Format, TensorFile, TensorWriter};
use crate::methods::MethodSpec;
use crate::span::moments::Moments;
use crate::training::{Checkpointing, Training, joined};
use crate::{Error, HoldOut, Result};

use super::params::{KpcaParams, MapParams};

/// 1 had no checksum, 2 hashed rows in another way.
const FORMAT: Format = Format {
    content: Content::Checkpoint,
    version: 3,
    oldest: 3,
    if_older: "remove the file to start again",
};

/// What must be the same for a checkpoint to be continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FitIdentity {
    params: KpcaParams,
    rows: usize,
    width: usize,
    hold_out: HoldOut,
    /// Hash of given frequencies and phases, which the parameters do not carry into files.
    parts: Option<u64>,
    /// Hash of what landmarks were chosen by: the last layer, and logits at both ends.
    energies: Option<u64>,
}

impl FitIdentity {
    pub(super) fn new(params: &KpcaParams, training: &Training<'_>) -> Result<Self> {
        let mut params = params.clone();
        let parts = match &mut params.map {
            MapParams::Fourier { parts, .. } => parts.take().map(|parts| parts.hash()),
            _ => None,
        };
        let energies = params.needs_energy_to_fit().then(|| energy_hash(training)).transpose()?;
        Ok(FitIdentity {
            params,
            parts,
            energies,
            rows: training.data.rows(),
            width: training.data.width(),
            hold_out: training.hold_out,
        })
    }
}

/// The state of a pass over the rows.
pub(super) struct Progress {
    pub(super) moments: Moments,
    pub(super) next_row: usize,
    /// Hash of the rows done.
    pub(super) fingerprint: u64,
    /// First and last chunk done, with their hashes: enough to notice another file.
    pub(super) seams: Vec<Seam>,
    pub(super) clip: Option<f64>,
    pub(super) landmark_rows: Vec<usize>,
    /// Rows up to this one are in the checkpoint.
    pub(super) saved_rows: Option<usize>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Seam {
    rows: Range<usize>,
    hash: u64,
}

impl Progress {
    /// A pass about to begin at this row, after rows that gave these moments and this fingerprint.
    pub(super) fn new(moments: Moments, next_row: usize, fingerprint: u64) -> Self {
        Progress {
            moments,
            next_row,
            fingerprint,
            seams: Vec::new(),
            clip: None,
            landmark_rows: Vec::new(),
            saved_rows: None,
        }
    }

    pub(super) fn advance(&mut self, rows: Range<usize>, hash: u64) {
        self.next_row = rows.end;
        self.fingerprint = joined([self.fingerprint, hash]);
        self.seams.truncate(1);
        self.seams.push(Seam { rows, hash });
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    identity: FitIdentity,
    count: u64,
    next_row: usize,
    fingerprint: u64,
    seams: Vec<Seam>,
    clip: Option<f64>,
    landmark_rows: Vec<usize>,
}

impl Checkpointing {
    /// The same settings for another file: `FILE.suffix`.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{suffix}"));
        Checkpointing { path: path.into(), every: self.every }
    }

    /// The files that a fit of this method saves: one, or one per member of an ensemble.
    #[must_use]
    pub fn files(&self, spec: &MethodSpec) -> Vec<PathBuf> {
        match spec.checkpoints() {
            None | Some([]) => vec![self.path.clone()],
            Some(suffixes) => suffixes.iter().map(|suffix| self.with_suffix(suffix).path).collect(),
        }
    }

    /// The saved state, if there is a file; an error if it belongs to another fit.
    pub(super) fn load(&self, identity: &FitIdentity) -> Result<Option<Progress>> {
        let path = &self.path;
        if !path.try_exists().map_err(Error::io("read", path))? {
            return Ok(None);
        }
        let file = TensorFile::open(path)?;
        let header: Header = file.document(&FORMAT)?;
        if let Some(reason) = difference(&header.identity, identity) {
            return Err(Error::Checkpoint { path: path.clone(), reason });
        }
        let valid_rows = header.next_row <= identity.rows
            && header.seams.iter().all(|seam| seam.rows.end <= identity.rows)
            && header.landmark_rows.iter().all(|&row| row < identity.rows);
        if !valid_rows {
            let reason = "its rows are out of range";
            return Err(Error::malformed(path, FORMAT.content.name(), reason));
        }
        let seen = (0..header.next_row).filter(|&row| identity.hold_out.keeps(row)).count() as u64;
        if header.count != seen {
            let reason = format!("its moments have {} rows, its pass {seen}", header.count);
            return Err(Error::malformed(path, FORMAT.content.name(), reason));
        }
        Ok(Some(Progress {
            moments: Moments::read_tensors(&file, header.count)?,
            next_row: header.next_row,
            fingerprint: header.fingerprint,
            seams: header.seams,
            clip: header.clip,
            landmark_rows: header.landmark_rows,
            saved_rows: Some(header.next_row),
        }))
    }

    /// Compares the moments' width with the map's, and the rows at the seams with those that the
    /// checkpoint saw.
    pub(super) fn verify(
        &self,
        progress: &Progress,
        width: usize,
        hash_of: impl Fn(Range<usize>) -> Result<u64>,
    ) -> Result<()> {
        if progress.moments.width() != width {
            let got = progress.moments.width();
            let reason = format!("this fit has {width} coordinates, its moments have {got}");
            return Err(Error::Checkpoint { path: self.path.clone(), reason });
        }
        for seam in &progress.seams {
            if hash_of(seam.rows.clone())? != seam.hash {
                let reason = format!(
                    "rows {} to {} are not those that it has seen",
                    seam.rows.start,
                    seam.rows.end.saturating_sub(1)
                );
                return Err(Error::Checkpoint { path: self.path.clone(), reason });
            }
        }
        Ok(())
    }

    pub(super) fn saver<'a>(
        &'a self,
        identity: &'a FitIdentity,
        observer: &'a dyn Observer,
    ) -> Saver<'a> {
        Saver { settings: self, identity, observer, last: Instant::now(), failing: false }
    }

    /// Says that the fit was stopped, and up to which row its progress is saved.
    pub(super) fn interrupted(&self, saved_rows: Option<usize>) -> Error {
        let hint = match saved_rows {
            Some(row) => format!(
                "; progress up to row {row} is in {}, run the same command to go on",
                self.path.display()
            ),
            None => "; no progress was saved".to_owned(),
        };
        Error::Interrupted { hint }
    }
}

/// Identifies the logits and the last layer that energies come from, without reading all of them.
fn energy_hash(training: &Training<'_>) -> Result<u64> {
    const ROWS: usize = 256;
    let mut numbers: Vec<f64> = Vec::new();
    if let Some(head) = training.head {
        numbers.extend(head.weight.iter().chain(&head.bias));
    }
    if let Some(logits) = &training.data.logits {
        let rows = ROWS.min(logits.rows());
        let mut block = Array2::zeros((rows, logits.width()));
        for start in [0, logits.rows() - rows] {
            logits.read_f64(start, block.view_mut())?;
            numbers.extend(&block);
        }
    }
    Ok(xxh3_64(bytemuck::cast_slice(&numbers)))
}

fn difference(saved: &FitIdentity, now: &FitIdentity) -> Option<String> {
    let json = |value: &KpcaParams| serde_json::json!(value).to_string();
    if saved.params != now.params {
        return Some(format!(
            "it was made with other parameters: {} there, {} now",
            json(&saved.params),
            json(&now.params)
        ));
    }
    if (saved.rows, saved.width) != (now.rows, now.width) {
        return Some(format!(
            "it was made for {} × {} features, these are {} × {}",
            saved.rows, saved.width, now.rows, now.width
        ));
    }
    if saved.energies != now.energies {
        return Some("it was made with other logits or another head".to_owned());
    }
    if saved.parts != now.parts {
        return Some("it was made with other frequencies".to_owned());
    }
    (saved.hold_out != now.hold_out).then(|| "it held out other rows".to_owned())
}

/// Writes checkpoints while a pass runs. One that cannot be written leaves the last one as it is, and
/// the fit goes on.
pub(super) struct Saver<'a> {
    settings: &'a Checkpointing,
    identity: &'a FitIdentity,
    observer: &'a dyn Observer,
    /// When the last one was tried.
    last: Instant,
    /// Whether that failed, and the observer knows.
    failing: bool,
}

impl Saver<'_> {
    pub(super) fn save_if_due(&mut self, progress: &mut Progress) {
        if self.last.elapsed() >= self.settings.every {
            self.save(progress);
        }
    }

    pub(super) fn save(&mut self, progress: &mut Progress) {
        match self.write(progress) {
            Ok(()) => {
                progress.saved_rows = Some(progress.next_row);
                self.failing = false;
            }
            Err(error) => {
                if !self.failing {
                    self.observer.note(&failed(&error, progress.saved_rows));
                }
                self.failing = true;
            }
        }
        self.last = Instant::now();
    }

    fn write(&self, progress: &Progress) -> Result<()> {
        let header = Header {
            version: FORMAT.version,
            identity: self.identity.clone(),
            count: progress.moments.count(),
            next_row: progress.next_row,
            fingerprint: progress.fingerprint,
            seams: progress.seams.clone(),
            clip: progress.clip,
            landmark_rows: progress.landmark_rows.clone(),
        };
        let mut writer = TensorWriter::default();
        progress.moments.write_tensors(&mut writer);
        writer.write(&self.settings.path, &FORMAT, serde_json::json!(header))
    }

    /// Saves what there is and says where.
    pub(super) fn interrupted(&mut self, progress: &mut Progress) -> Error {
        self.save(progress);
        self.settings.interrupted(progress.saved_rows)
    }
}

fn failed(error: &Error, saved_rows: Option<usize>) -> String {
    let kept = match saved_rows {
        Some(row) => format!("the last one, up to row {row}, is kept if it is still there"),
        None => "there is none yet".to_owned(),
    };
    format!("the checkpoint could not be saved: {error}; {kept}, and the fit goes on")
}
