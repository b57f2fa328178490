//! What a report or a study leaves in its folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use offspan::io::{write_bytes, write_text};
use offspan_report::page::{Block, Page};
use offspan_report::plot::{Plot, Theme};
use serde_json::Value;

use crate::{Result, StudyError};

/// Pixels of a PNG file for each of a plot's own.
const PNG_SCALE: f32 = 2.0;

/// Plots with the names of their files.
#[derive(Debug, Default)]
pub(crate) struct Album {
    plots: Vec<(String, Plot)>,
}

impl Album {
    /// Plots side by side, each with a caption; they will be files of their own, too.
    pub(crate) fn show(&mut self, plots: Vec<(String, Plot, String)>) -> Block {
        let mut figures = Vec::new();
        for (mut name, plot, caption) in plots {
            // Names of sets may become the same as file names.
            while self.plots.iter().any(|(other, _)| *other == name) {
                name.push_str("-2");
            }
            figures.push((plot.svg(Theme::Page), caption));
            self.plots.push((name, plot));
        }
        Block::Figures(figures)
    }
}

/// A folder for results; made where it is missing.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn make(path: &Path) -> Result<Self> {
        make(path)?;
        Ok(Folder { path: path.to_owned() })
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn text(&self, name: &str, text: &str) -> Result<()> {
        Ok(write_text(self.join(name), text)?)
    }

    pub(crate) fn json(&self, name: &str, value: &Value) -> Result<()> {
        self.text(name, &(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Writes the plots, light as on paper, as SVG and PNG.
    pub(crate) fn plots(&self, album: &Album) -> Result<()> {
        let folder = self.join("plots");
        make(&folder)?;
        for (name, plot) in &album.plots {
            write_text(folder.join(format!("{name}.svg")), &plot.svg(Theme::Light))?;
            let png = plot
                .png(Theme::Light, PNG_SCALE)
                .map_err(|source| StudyError::Picture { plot: name.clone(), source })?;
            write_bytes(folder.join(format!("{name}.png")), &png)?;
        }
        Ok(())
    }

    /// Writes a page and returns where it is.
    pub(crate) fn page(&self, name: &str, page: &Page) -> Result<PathBuf> {
        let path = self.join(name);
        write_text(&path, &page.html())?;
        Ok(path)
    }
}

fn make(path: &Path) -> Result<()> {
    let failed = |source| StudyError::Folder { path: path.display().to_string(), source };
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
        _ => std::fs::create_dir_all(path).map_err(failed),
    }
}

/// Who made a page.
pub(crate) fn made_by() -> String {
    format!("offspan {}", env!("CARGO_PKG_VERSION"))
}
