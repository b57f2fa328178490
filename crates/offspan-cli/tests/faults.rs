//! Every call to the system fails once, and nothing is lost: after each fault the files are the old ones or the new
//! ones, whole, the exit code and the sentence are right, and nothing else lies around.
//!
//! `tests/faults/inject.c` spoils one call of a command. The short test takes every call of some commands, `make faults`
//! every call of all, and prints a table.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
mod util;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use offspan::io::stored_checksum;
use util::*;

/// What may befall a call, and what a message then says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The disk is full.
    Full,
    /// The disk fails.
    Broken,
    /// The call asks to be repeated.
    Interrupted,
    /// The call moves half of the bytes.
    Short,
    /// The process is killed before the call.
    Kill,
}

const FAULTS: [Fault; 5] =
    [Fault::Full, Fault::Broken, Fault::Interrupted, Fault::Short, Fault::Kill];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Full => "ENOSPC",
            Fault::Broken => "EIO",
            Fault::Interrupted => "EINTR",
            Fault::Short => "short",
            Fault::Kill => "kill",
        }
    }

    /// What the table calls it.
    fn in_words(self) -> &'static str {
        match self {
            Fault::Short => "half of the bytes",
            other => other.name(),
        }
    }

    /// What the system says; nothing of what a program must cope with by itself.
    fn reason(self) -> Option<&'static str> {
        match self {
            Fault::Full => Some("No space left on device"),
            Fault::Broken => Some("Input/output error"),
            Fault::Interrupted | Fault::Short | Fault::Kill => None,
        }
    }
}

/// How a spoilt command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// As if nothing had been.
    Done,
    /// It did its work and told of the fault.
    DoneWithWords,
    /// An error, the old files.
    RefusedOld,
    /// An error, and a new file is there already: only what comes after it failed.
    RefusedNew,
    KilledOld,
    KilledNew,
}

/// The tool, compiled once.
fn inject() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/faults/inject.c");
        // A name of this process: another test program may be compiling it, too.
        let tool =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("inject-{}", std::process::id()));
        let mut compiler = Command::new("cc");
        let done = compiler.args(["-O1", "-o"]).arg(&tool).arg(source).status().unwrap();
        assert!(done.success(), "cc failed");
        tool
    })
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// All files of a folder and the folders in it.
fn files_in(folder: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_owned();
                    found.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

/// Makes the folder what it was.
fn restore(folder: &Path, before: &Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(folder).unwrap();
        if path.is_dir() && !before.keys().any(|known| known.starts_with(name)) {
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
    let now = files_in(folder);
    for name in now.keys().filter(|name| !before.contains_key(*name)) {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    for (name, bytes) in before.iter().filter(|(name, bytes)| now.get(*name) != Some(bytes)) {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Contents without the seconds that something took, which differ from run to run.
fn without_times(name: &Path, bytes: &[u8]) -> Vec<u8> {
    let has_times = name.extension().is_some_and(|e| e == "json" || e == "html");
    if !has_times {
        return bytes.to_vec();
    }
    let mut plain: Vec<u8> = bytes
        .iter()
        .map(|&byte| if byte.is_ascii_digit() || b".e-+".contains(&byte) { b'#' } else { byte })
        .collect();
    plain.dedup_by(|a, b| *a == b'#' && *b == b'#');
    plain
}

/// A command that is spoilt again and again, in a folder that has all it reads and an old version of what it writes.
struct Victim {
    place: Place,
    name: &'static str,
    line: String,
    before: Files,
    after: Files,
    /// Its exit code and what it says when nothing happens to it.
    code: i32,
    /// Whether a fault may be no more than a remark.
    goes_on: bool,
}

impl Victim {
    fn new(place: Place, name: &'static str, line: &str) -> Self {
        let line = format!("{line} --threads 1");
        let before = files_in(&place.path("."));
        let mut victim =
            Victim { place, name, line, before, after: Files::new(), code: 0, goes_on: false };
        let (ran, ..) = victim.spoil("none", 0);
        assert!(matches!(ran.code, Some(0 | 1)) && ran.stderr.is_empty(), "{ran:?}");
        victim.code = ran.code.unwrap();
        victim.after = files_in(&victim.place.path("."));
        assert_ne!(victim.before, victim.after, "{name} writes nothing");
        restore(&victim.place.path("."), &victim.before);
        victim
    }

    /// Runs the command with one call spoilt; how many calls it had, and which one it was.
    fn spoil(&self, fault: &str, call: usize) -> (Ran, usize, String) {
        let report = tempfile::NamedTempFile::new().unwrap();
        let plain = self.place.command(&self.line);
        let mut command = Command::new(inject());
        command.current_dir(self.place.path(".")).stdin(std::process::Stdio::null());
        command.env("TMPDIR", self.place.path("."));
        command.arg(fault).arg(call.to_string()).arg(report.path());
        command.arg(plain.get_program()).args(plain.get_args());
        let ran = Ran::new(&self.line, command.output().unwrap());
        let text = std::fs::read_to_string(report.path()).unwrap();
        let (count, spoilt) = text.trim_end().split_once(' ').unwrap();
        (ran, count.parse().unwrap(), spoilt.to_owned())
    }

    /// Spoils every call, one per run; what came of it, and what is wrong with it.
    fn spoil_all(&self, fault: Fault, wrong: &mut Vec<String>) -> BTreeMap<Outcome, usize> {
        let mut outcomes = BTreeMap::new();
        for call in 1.. {
            let (ran, count, spoilt) = self.spoil(fault.name(), call);
            if spoilt == "-" {
                restore(&self.place.path("."), &self.before);
                assert!(call > count, "call {call} of {count}: {ran:?}");
                break;
            }
            match self.judge(fault, &ran, &spoilt) {
                Ok(outcome) => *outcomes.entry(outcome).or_insert(0) += 1,
                Err(reason) => wrong.push(format!(
                    "{}, {} at call {call} ({spoilt}): {reason}\n  {ran:?}",
                    self.name,
                    fault.name()
                )),
            }
            restore(&self.place.path("."), &self.before);
        }
        outcomes
    }

    fn judge(&self, fault: Fault, ran: &Ran, spoilt: &str) -> Result<Outcome, String> {
        let found = files_in(&self.place.path("."));
        let mut new = 0;
        for (name, bytes) in &found {
            let is = |known: &Files| {
                let same =
                    |known: &Vec<u8>| without_times(name, known) == without_times(name, bytes);
                known.get(name).is_some_and(same)
            };
            let (old, same_as_new) = (is(&self.before), is(&self.after));
            let is_checkpoint = self.name.contains("checkpoint")
                && stored_checksum(self.place.path(".").join(name)).is_ok_and(|sum| sum.is_some())
                && mutate::repaired(bytes) == *bytes;
            // A checkpoint comes and goes while the command runs, and is whole whenever it is there.
            let comes_and_goes = name.starts_with("c") && is_checkpoint;
            // What is left of a lock by who could not remove it is empty of meaning: nobody holds it.
            let is_lock = name.extension().is_some_and(|e| e == "lock")
                && bytes.trim_ascii().iter().all(u8::is_ascii_digit)
                && (fault == Fault::Kill || fault == Fault::Broken);
            // Between link and rename, a new file that replaces another has two names: killed there, one more is left, whole.
            let is_new = |(name, new): (&PathBuf, &Vec<u8>)| {
                without_times(name, new) == without_times(name, bytes)
            };
            let is_second_name = fault == Fault::Kill
                && name.extension().is_some_and(|e| e == "partial")
                && (is_checkpoint || self.after.iter().any(is_new));
            // A new pack is made in a folder of its own, which only a kill leaves, or a disk that will not remove it.
            let could_not_remove = fault == Fault::Broken
                && ["remove ", "list ", "open ", "stat "]
                    .iter()
                    .any(|call| spoilt.starts_with(call));
            let is_in_work = name.components().count() > 1
                && name.iter().next().is_some_and(|folder| {
                    let folder = folder.to_string_lossy();
                    folder.starts_with(".offspan-") && folder.ends_with(".partial")
                })
                && (fault == Fault::Kill || could_not_remove);
            let may_be_there = comes_and_goes || is_lock || is_second_name || is_in_work;
            if !old && !same_as_new && !may_be_there {
                return Err(format!("{} is neither old nor new", name.display()));
            }
            new += usize::from(same_as_new && !old);
        }
        let lost = |name: &&PathBuf| !found.contains_key(*name) && self.after.contains_key(*name);
        if let Some(name) = self.before.keys().find(lost) {
            return Err(format!("{} is lost", name.display()));
        }
        let all_new = self.after.keys().all(|name| found.contains_key(name));
        let changed =
            self.after.iter().filter(|(name, bytes)| self.before.get(*name) != Some(bytes));
        let all_new = all_new && new == changed.count();
        if ran.stderr.contains("panicked") {
            return Err("it panicked".to_owned());
        }
        match ran.code {
            None if fault == Fault::Kill => {
                Ok(if new > 0 { Outcome::KilledNew } else { Outcome::KilledOld })
            }
            None => Err("a signal ended it".to_owned()),
            Some(code) if code == self.code => {
                if !all_new {
                    return Err("it says that all is well, and not all is written".to_owned());
                }
                Ok(match ran.stderr.is_empty() {
                    true => Outcome::Done,
                    false => Outcome::DoneWithWords,
                })
            }
            Some(2) => {
                let reason =
                    fault.reason().ok_or("it gave up where it should have gone on".to_owned())?;
                if !ran.stderr.starts_with("error: ") || !ran.stderr.contains(reason) {
                    return Err("its message does not tell the reason".to_owned());
                }
                Ok(if new > 0 { Outcome::RefusedNew } else { Outcome::RefusedOld })
            }
            Some(code) => Err(format!("exit code {code}")),
        }
    }
}

/// Rows in `rows.npy`, more than one chunk of them.
fn rows(place: &Place, rows: usize) {
    place.run(&format!("synth --rows {rows} --width 6 --type f16 --seed 3 -o rows.npy")).fine();
}

/// A detector called `net`, with a threshold.
fn detector(place: &Place) {
    place.run("fit rows.npy --method kpca-rff --features 16 -o net").fine();
}

fn fit() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    place.run("fit rows.npy --method pca -o net").fine();
    Victim::new(place, "fit", "fit rows.npy --method kpca-rff --features 16 -o net --json=fit.json")
}

/// The same without an old file.
fn first_fit() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    Victim::new(place, "fit, new file", "fit rows.npy --method pca -o net")
}

fn checkpointed() -> Victim {
    let place = Place::new();
    rows(&place, 20_000);
    place.run("fit rows.npy --method pca -o net").fine();
    // Held-out rows are read one by one: thousands of calls, all alike.
    let line = "fit rows.npy --method kpca-rff --features 16 --hold-out 0 -o net --checkpoint c --checkpoint-every 0";
    Victim { goes_on: true, ..Victim::new(place, "fit with checkpoint", line) }
}

fn calibrated() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    detector(&place);
    Victim::new(place, "calibrate", "calibrate net rows.npy --keep 0.9 -o net")
}

fn exported() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    detector(&place);
    place.run("export net -o net.onnx").fine();
    place.run("fit rows.npy --method pca -o net").fine();
    Victim::new(place, "export", "export net -o net.onnx --force")
}

fn reported() -> Victim {
    let place = Place::new();
    place.small_pack("pack", 60, 20);
    place.run("eval pack --method pca --report out --json=r.json").fine();
    Victim::new(place, "report", "eval pack --method knn -k 3 --report out --json=r.json")
}

fn monitored() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    detector(&place);
    place.run("monitor net rows.npy --state s --batch-id first").fine();
    Victim::new(place, "monitor", "monitor net rows.npy --state s --batch-id second")
}

fn scored() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    detector(&place);
    place.run("score net rows.npy -o scores.npy").fine();
    place.run("fit rows.npy --method pca -o net").fine();
    Victim::new(place, "score", "score net rows.npy -o scores.npy")
}

/// A pack from files of features: a folder that is not there before.
fn converted() -> Victim {
    let place = Place::new();
    rows(&place, 500);
    let line = "convert --train rows.npy --test rows.npy --ood other=rows.npy -o pack";
    Victim::new(place, "convert", line)
}

const HEADER: &str = "| command | fault | calls | as if nothing | went on, with a remark | error, old files | \
                      error, new file | killed, old files | killed, new file |\n|---|---|---|---|---|---|---|---|---|\n";

/// Spoils a command in every way: lines of the table, the number of faults, and what is wrong.
fn spoilt(victim: &Victim) -> (String, usize, Vec<String>) {
    let (mut lines, mut faults, mut wrong) = (String::new(), 0, Vec::new());
    for fault in FAULTS {
        let outcomes = victim.spoil_all(fault, &mut wrong);
        let all: usize = outcomes.values().sum();
        let count = |outcome| outcomes.get(&outcome).copied().unwrap_or_default();
        if count(Outcome::DoneWithWords) > 0 && !victim.goes_on {
            wrong.push(format!("{}, {}: it only remarked on a fault", victim.name, fault.name()));
        }
        let _ = writeln!(
            lines,
            "| {} | {} | {all} | {} | {} | {} | {} | {} | {} |",
            victim.name,
            fault.in_words(),
            count(Outcome::Done),
            count(Outcome::DoneWithWords),
            count(Outcome::RefusedOld),
            count(Outcome::RefusedNew),
            count(Outcome::KilledOld),
            count(Outcome::KilledNew)
        );
        faults += all;
    }
    (lines, faults, wrong)
}

/// Spoils these commands, each in a thread of its own, and tells what came of it.
fn check(victims: &[Victim]) -> usize {
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = victims.iter().map(|victim| scope.spawn(|| spoilt(victim))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let (mut wrong, mut faults, mut table) = (Vec::new(), 0, String::from(HEADER));
    for (lines, count, more) in all {
        table += &lines;
        faults += count;
        wrong.extend(more);
    }
    println!("{table}\n{faults} faults, {} of them with a loss or a wrong message", wrong.len());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    faults
}

#[test]
fn no_fault_of_any_call_loses_a_file_or_leaves_one_behind() {
    assert!(check(&[first_fit(), monitored()]) > 100);
}

#[test]
#[ignore = "it takes minutes: make faults"]
fn no_fault_of_any_call_of_any_command_loses_a_file_or_leaves_one_behind() {
    let victims = [
        fit(),
        first_fit(),
        checkpointed(),
        calibrated(),
        exported(),
        reported(),
        monitored(),
        scored(),
        converted(),
    ];
    assert!(check(&victims) >= 2000);
}
