//! Fits that are killed at any moment: no half-written file, and the same detector in the end.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod util;

use std::os::unix::fs::MetadataExt;
use std::process::Child;

use util::*;

/// Kills at random moments, per fit.
const RANDOM_KILLS: usize = 5;
/// Kills while a file is being written, per fit.
const KILLS_WHILE_WRITING: usize = 2;
/// Kills that leave a checkpoint to go on from, per fit: more are tried until there are so many.
const KILLS_IN_MID_PASS: usize = 2;
/// Runs of a fit in which all this must have happened.
const MOST_RUNS: usize = 60;
/// Chunks of a pass: rows of this width come in chunks of 2048.
const CHUNKS: usize = 8;

const FITS: [&str; 5] = [
    "--method kpca-rff --features 512",
    "--method kpca-nys --landmarks 256 --sampling uniform --residual complete",
    "--method kpca-nys --landmarks 256 --head weight.npy,bias.npy --react p90",
    "--method kpca-ensemble --landmarks 256 --features 256 --head weight.npy,bias.npy",
    "--method auto --landmarks 256 --head weight.npy,bias.npy",
];

/// Names of what a fit with `--checkpoint c` may write.
const CHECKPOINTS: [&str; 3] = ["c", "c.rff", "c.nys"];

fn write_rows(place: &Place, chunks: usize, seed: u64) {
    let rows = 2048 * chunks;
    let line =
        format!("synth --rows {rows} --width 2048 --type f16 --seed {seed} -o rows.npy --force");
    place.run(&line).fine();
}

/// Rows and two last layers for them.
fn place_with_rows() -> Place {
    let place = Place::new();
    write_rows(&place, CHUNKS, 0);
    for (name, seed) in [("weight", 1), ("other", 2)] {
        let mut noise = Noise(seed);
        let numbers: Vec<f32> = (0..10 * 2048).map(|_| 0.2 * noise.next() as f32 - 0.1).collect();
        place.write(&format!("{name}.npy"), npy("<f4", &[10, 2048], &f32_bytes(&numbers)));
    }
    place.write("bias.npy", npy("<f4", &[10], &f32_bytes(&[0.1; 10])));
    place
}

/// The files of a folder with their inodes and sizes: changes whenever something is written or renamed.
type Snapshot = Vec<(String, Option<(u64, u64)>)>;

fn snapshot(place: &Place) -> Snapshot {
    // A file may be renamed between listing and looking.
    let look = |name: String| {
        let metadata = std::fs::metadata(place.path(&name)).ok();
        (name, metadata.map(|metadata| (metadata.ino(), metadata.size())))
    };
    place.files().into_iter().map(look).collect()
}

/// Counts the changes of a folder until so many were seen or the command ends.
fn wait_for_changes(place: &Place, child: &mut Child, most: usize) -> usize {
    let (mut seen, mut last) = (0, snapshot(place));
    wait_until(child, || {
        let now = snapshot(place);
        seen += usize::from(now != last);
        last = now;
        seen >= most
    });
    seen
}

/// When to kill a fit.
enum Moment {
    /// When the folder has changed so many times.
    AfterChanges(usize),
    /// When there is a checkpoint and a file that is not whole yet.
    WhileWriting,
}

/// Whether a process has a file of this folder open that is not whole yet: one without a name, or one beside its place
/// that no earlier kill has left.
fn is_writing(place: &Place, id: u32, left: &[String]) -> bool {
    if place.partials().iter().any(|name| !left.contains(name)) {
        return true;
    }
    let folder = place.path("").canonicalize().unwrap();
    // Gone with the process, or not to be had on this system.
    let Ok(open) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return false };
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|file| file.starts_with(&folder) && file.to_string_lossy().ends_with(" (deleted)"))
}

#[derive(Default)]
struct Counts {
    kills: usize,
    /// With a checkpoint on the disk and no detector: the next run had something to go on from.
    in_mid_pass: usize,
    /// Fits that ended by themselves before their kill.
    finished: usize,
    /// Kills that left a file that is whole and not yet in its place.
    left_behind: usize,
}

/// A fit that is killed again and again.
struct Victim<'a> {
    place: &'a Place,
    line: String,
    whole: Vec<u8>,
    /// Changes of the folder that an uninterrupted fit was seen to make.
    changes: usize,
}

impl<'a> Victim<'a> {
    /// Fits once without any checkpoint and once, to count what is written, with them.
    fn new(place: &'a Place, flags: &str) -> Self {
        place.run(&format!("fit rows.npy {flags} -o whole")).fine();
        let line = format!("fit rows.npy {flags} --checkpoint c --checkpoint-every 0 -o net");
        let mut child = place.start(&line);
        let changes = wait_for_changes(place, &mut child, usize::MAX);
        finish(&line, child).fine();
        assert!(changes >= CHUNKS, "{changes} changes: {line}");
        let victim = Victim { place, line, whole: place.read("whole"), changes };
        victim.check_finished();
        victim
    }

    fn checkpoints(&self) -> Vec<&str> {
        CHECKPOINTS.into_iter().filter(|name| self.place.has(name)).collect()
    }

    /// The detector is the uninterrupted one, and the checkpoints are gone; then starts over.
    fn check_finished(&self) {
        assert!(self.place.read("net") == self.whole, "another detector: {}", self.line);
        assert!(self.checkpoints().is_empty(), "{:?}: {}", self.checkpoints(), self.line);
        std::fs::remove_file(self.place.path("net")).unwrap();
    }

    /// Runs until the moment or the end, whichever comes first.
    fn kill(&self, moment: &Moment, counts: &mut Counts) {
        let left = self.place.partials();
        let mut child = self.place.start(&self.line);
        match moment {
            Moment::AfterChanges(count) => {
                wait_for_changes(self.place, &mut child, *count);
            }
            Moment::WhileWriting => {
                let id = child.id();
                wait_until(&mut child, || {
                    is_writing(self.place, id, &left) && !self.checkpoints().is_empty()
                });
            }
        }
        child.kill().unwrap();
        let ran = finish(&self.line, child);
        if let Some(code) = ran.code {
            assert_eq!((code, &*ran.stderr), (0, ""), "{ran:?}");
            counts.finished += 1;
            self.check_finished();
            return;
        }
        counts.kills += 1;
        // Between being linked and being renamed, a whole file has a name of its own, always the same for one place.
        let now = self.place.partials();
        assert!(now.len() <= CHECKPOINTS.len(), "{now:?}: {}", self.line);
        counts.left_behind += usize::from(now.iter().any(|name| !left.contains(name)));
        let whole = self.place.has("net");
        if whole {
            self.place.run("inspect net").fine();
            assert!(self.place.read("net") == self.whole, "another detector: {}", self.line);
            // It would hide from the next kills that they came before the end.
            std::fs::remove_file(self.place.path("net")).unwrap();
        }
        counts.in_mid_pass += usize::from(!whole && !self.checkpoints().is_empty());
    }
}

#[test]
#[ignore = "it takes minutes: make test-slow"]
fn a_fit_killed_at_any_moment_never_leaves_half_a_file_and_ends_with_the_same_detector() {
    let place = place_with_rows();
    let mut noise = Noise(2026);
    for flags in FITS {
        let victim = Victim::new(&place, flags);
        let mut counts = Counts::default();
        let mut runs = 0;
        while counts.kills < RANDOM_KILLS + KILLS_WHILE_WRITING
            || counts.in_mid_pass < KILLS_IN_MID_PASS
        {
            let moment = if counts.kills < RANDOM_KILLS {
                Moment::AfterChanges((victim.changes as f64 * noise.next()) as usize)
            } else {
                Moment::WhileWriting
            };
            victim.kill(&moment, &mut counts);
            runs += 1;
            assert!(runs < MOST_RUNS, "the fit is too short to be killed: {flags}");
        }
        place.run(&victim.line).fine();
        victim.check_finished();
        // The next write of a file takes away what a kill left of it.
        assert!(place.partials().is_empty(), "{:?}: {flags}", place.partials());
        println!(
            "{flags}: {} changes, {} kills, {} in mid-pass, {} finished before, {} left a second name",
            victim.changes, counts.kills, counts.in_mid_pass, counts.finished, counts.left_behind,
        );
    }
}

/// Kills a fit once its checkpoint is there.
fn kill_in_mid_pass(place: &Place, line: &str) {
    let mut child = place.start(line);
    assert!(wait_until(&mut child, || place.has("c")), "{:?}", finish(line, child));
    child.kill().unwrap();
    assert_eq!(finish(line, child).code, None);
    assert!(place.has("c") && !place.has("net"));
}

#[test]
fn a_fit_with_given_frequencies_goes_on_after_a_kill() {
    let place = place_with_rows();
    let mut noise = Noise(9);
    let mut numbers = |count: usize| (0..count).map(|_| noise.next() as f32 - 0.5).collect();
    let arrays: [(&str, &[usize], Vec<f32>); 2] =
        [("omega", &[256, 2048], numbers(256 * 2048)), ("u", &[256], numbers(256))];
    write_safetensors(&place.path("frequencies.safetensors"), &arrays);
    let fit = "fit rows.npy --method kpca-rff --frequencies frequencies.safetensors";
    let line = format!("{fit} --checkpoint c --checkpoint-every 0 -o net");
    kill_in_mid_pass(&place, &line);
    place.run(&line).fine();
    place.run(&format!("{fit} -o whole")).fine();
    assert!(place.read("net") == place.read("whole"), "another detector came out");
    std::fs::remove_file(place.path("net")).unwrap();

    // Frequencies are a part of the fit: a checkpoint of others must not be taken up.
    kill_in_mid_pass(&place, &line);
    let arrays = [arrays[0].clone(), ("u", &[256][..], vec![0.5; 256])];
    write_safetensors(&place.path("frequencies.safetensors"), &arrays);
    assert!(place.run(&line).refused().contains("cannot resume"));
}

#[test]
fn a_checkpoint_does_not_mix_fits_with_different_heads() {
    let place = place_with_rows();
    let fit = |head: &str, more: &str| {
        format!("fit rows.npy --method kpca-nys --landmarks 256 --head {head}.npy,bias.npy {more}")
    };
    let saved = "--checkpoint c --checkpoint-every 0 -o net";
    kill_in_mid_pass(&place, &fit("weight", saved));
    // Other energies choose other landmarks: either the checkpoint is refused or it does not count.
    let ran = place.run(&fit("other", saved));
    if ran.code == Some(2) {
        assert!(ran.refused().contains("cannot resume"));
    } else {
        ran.fine();
        place.run(&fit("other", "-o whole")).fine();
        assert!(place.read("net") == place.read("whole"), "landmarks of the head before");
    }
}

#[test]
fn a_checkpoint_of_other_rows_is_refused() {
    let place = place_with_rows();
    let line = "fit rows.npy --method kpca-rff --features 256 --checkpoint c --checkpoint-every 0";
    let line = format!("{line} -o net");
    kill_in_mid_pass(&place, &line);
    write_rows(&place, CHUNKS, 1);
    let message = place.run(&line).refused();
    assert!(message.contains("c: cannot resume: rows 0 to 2047 are not those"), "{message}");
    write_rows(&place, 1, 0);
    let message = place.run(&line).refused();
    assert!(message.contains("it was made for 16384 × 2048 features"), "{message}");
    assert!(place.has("c") && !place.has("net"));
}

#[test]
fn a_damaged_checkpoint_is_refused_and_kept() {
    let place = place_with_rows();
    let line = "fit rows.npy --method kpca-rff --features 256 --checkpoint c --checkpoint-every 0";
    let line = format!("{line} -o net");
    kill_in_mid_pass(&place, &line);
    let bytes = place.read("c");
    for length in [0, 7, 100, bytes.len() - 1] {
        place.write("c", &bytes[..length]);
        let message = place.run(&line).refused();
        assert!(message.starts_with("error: c"), "{length}: {message}");
        assert!(!place.has("net") && place.read("c").len() == length);
    }
}
