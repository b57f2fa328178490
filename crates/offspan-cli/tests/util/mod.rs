//! Runs the built `offspan` in folders of its own, and makes small inputs for it.

// Each test file compiles its own copy and uses a part of it.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

#[path = "../../../offspan/tests/common/noise.rs"]
mod noise;

pub(crate) use noise::Noise;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use ndarray::Array2;
use offspan::io::{FeatureSource, open_matrix};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tempfile::TempDir;

/// A folder to run commands in; it goes away at the end.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `offspan` with the words of a line as arguments, in this folder. `PACK` at the beginning of
    /// a word stands for the demo pack.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_offspan"));
        command.current_dir(&self.0).stdin(Stdio::null());
        for word in line.split_whitespace() {
            match word.strip_prefix("PACK") {
                Some(rest) => command.arg(format!("{}{rest}", demo_pack().display())),
                None => command.arg(word),
            };
        }
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::new(line, self.command(line).output().unwrap())
    }

    /// Runs a command that cannot write files larger than so many blocks of 512 or 1024 bytes, as if the
    /// disk were full.
    #[cfg(unix)]
    pub(crate) fn limited(&self, line: &str, blocks: usize) -> Ran {
        let plain = self.command(line);
        let mut command = Command::new("sh");
        // Ignored, the signal becomes an error of the write.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        command.current_dir(&self.0).stdin(Stdio::null()).args(["-c", &script, "sh"]);
        command.arg(plain.get_program()).args(plain.get_args());
        Ran::new(line, command.output().unwrap())
    }

    /// The same with something on stdin.
    #[track_caller]
    pub(crate) fn run_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A command that refuses what it reads stops listening.
        std::thread::scope(|scope| {
            scope.spawn(move || pipe.write_all(stdin));
            Ran::new(line, child.wait_with_output().unwrap())
        })
    }

    /// Starts a command whose output is kept for [`finish`].
    pub(crate) fn start(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Everything in the folder, hidden files too, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Files that an atomic write did not finish.
    pub(crate) fn partials(&self) -> Vec<String> {
        self.files().into_iter().filter(|name| name.ends_with(".partial")).collect()
    }

    /// A pack of the first rows of the demo's sets, with its head.
    pub(crate) fn small_pack(&self, name: &str, train: usize, others: usize) {
        std::fs::create_dir_all(self.path(name).join("ood")).unwrap();
        for (file, rows) in [
            ("train", train),
            ("test", others),
            ("ood/digits", others),
            ("ood/textures", others),
            ("head", usize::MAX),
        ] {
            let file = format!("{file}.safetensors");
            first_rows(&demo_pack().join(&file), &self.path(name).join(&file), rows);
        }
    }

    /// One tensor of a demo file as `.npy`.
    pub(crate) fn npy_of(&self, name: &str, demo_file: &str, tensor: &str) -> Array2<f32> {
        let array = matrix(&demo_pack().join(demo_file), tensor);
        self.write(name, npy_f32(&array));
        array
    }

    /// The demo's last layer as `weight.npy` and `bias.npy`.
    pub(crate) fn npy_head(&self) {
        let bytes = std::fs::read(demo_pack().join("head.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        for name in ["weight", "bias"] {
            let tensor = tensors.tensor(name).unwrap();
            assert_eq!(tensor.dtype(), Dtype::F32);
            self.write(&format!("{name}.npy"), npy("<f4", tensor.shape(), tensor.data()));
        }
    }
}

/// Methods that need what an ordinary network does not give.
pub(crate) const SPECIAL: [&str; 12] = [
    "rank-feat",
    "rank-feat+rank-weight",
    "feature-norm",
    "davis-std",
    "davis-max",
    "knn-plus",
    "ssd-plus",
    "mcf",
    "mnc",
    "dml-plus",
    "godin",
    "csi",
];

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) line: String,
    /// None after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(line: &str, output: Output) -> Self {
        Ran {
            line: line.to_owned(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It went well and was silent about it; gives what it printed.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "offspan {}", self.line);
        self.stdout
    }

    /// It went well and printed one JSON document.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let line = self.line.clone();
        let text = self.fine();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("offspan {line}: {error}"))
    }

    /// It ended with an error and printed no result; gives the message.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self.stderr
    }
}

/// Waits for the end of a command, however long it takes.
pub(crate) fn finish(line: &str, child: Child) -> Ran {
    Ran::new(line, child.wait_with_output().unwrap())
}

/// Sends a signal such as `INT`.
#[cfg(unix)]
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.unwrap().success(), "kill -{name}");
}

/// Starts a command and waits until Ctrl-C and termination are in its own hands.
#[cfg(target_os = "linux")]
pub(crate) fn start_and_wait_for_handlers(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let caught = |signal: u32| {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal - 1)) != 0
    };
    assert!(
        wait_until(&mut child, || caught(2) && caught(15)),
        "it ended before it could be asked to"
    );
    child
}

/// Waits until something is true of a running command; false if the command ends first.
pub(crate) fn wait_until(child: &mut Child, mut condition: impl FnMut() -> bool) -> bool {
    while !condition() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    true
}

/// The pack that `offspan demo --write-pack` writes, made once per test program.
pub(crate) fn demo_pack() -> &'static Path {
    static PACK: OnceLock<PathBuf> = OnceLock::new();
    PACK.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo-pack");
        let mut command = Command::new(env!("CARGO_BIN_EXE_offspan"));
        let output = command.args(["demo", "--write-pack"]).arg(&folder).output().unwrap();
        Ran::new("demo --write-pack", output).fine();
        folder
    })
}

/// Figures without those that only rows with labels have.
pub(crate) fn of_unlabelled(mut figures: Value) -> Value {
    if let Value::Object(entries) = &mut figures {
        for name in ["aurc", "augrc", "oscr"] {
            entries.remove(name);
        }
        entries.values_mut().for_each(|value| *value = of_unlabelled(value.take()));
    }
    figures
}

/// A table from a file, as `f32`.
pub(crate) fn matrix(path: &Path, tensor: &str) -> Array2<f32> {
    let matrix = open_matrix(path, tensor, None).unwrap();
    let mut array = Array2::zeros((matrix.rows(), matrix.width()));
    matrix.read_f32(0, array.view_mut()).unwrap();
    array
}

/// Copies a safetensors file with at most the first `rows` of each tensor.
pub(crate) fn first_rows(from: &Path, to: &Path, rows: usize) {
    let bytes = std::fs::read(from).unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    let shortened = all.tensors().into_iter().map(|(name, tensor)| {
        let mut shape = tensor.shape().to_vec();
        let row = tensor.data().len() / shape[0];
        shape[0] = shape[0].min(rows);
        (name, TensorView::new(tensor.dtype(), shape.clone(), &tensor.data()[..shape[0] * row]))
    });
    let tensors: HashMap<String, TensorView<'_>> =
        shortened.map(|(name, tensor)| (name, tensor.unwrap())).collect();
    safetensors::serialize_to_file(tensors, None, to).unwrap();
}

/// A safetensors file of `f32` arrays with name, shape and numbers.
pub(crate) fn write_safetensors(path: &Path, arrays: &[(&str, &[usize], Vec<f32>)]) {
    let bytes: Vec<Vec<u8>> = arrays.iter().map(|(_, _, values)| f32_bytes(values)).collect();
    let tensors: HashMap<String, TensorView<'_>> = arrays
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| {
            let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap();
            ((*name).to_owned(), view)
        })
        .collect();
    safetensors::serialize_to_file(tensors, None, path).unwrap();
}

pub(crate) fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The bytes of a `.npy` file.
pub(crate) fn npy(descr: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(|size| format!("{size},")).collect();
    let dict = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}\n",
        sizes.join(" ")
    );
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn npy_f32(array: &Array2<f32>) -> Vec<u8> {
    let values: Vec<f32> = array.iter().copied().collect();
    npy("<f4", array.shape(), &f32_bytes(&values))
}

pub(crate) fn npy_f64(array: &Array2<f32>) -> Vec<u8> {
    npy("<f8", array.shape(), &f64_bytes(array))
}

/// The numbers alone, as `f64`: a file without header.
pub(crate) fn f64_bytes(array: &Array2<f32>) -> Vec<u8> {
    array.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect()
}

/// The numbers of a one-dimensional `<f8` `.npy`, whose shape is checked.
pub(crate) fn read_scores(bytes: &[u8]) -> Vec<f64> {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, data) = bytes[10..].split_at(length);
    let header = std::str::from_utf8(header).unwrap();
    let (words, _) = data.as_chunks::<8>();
    let shape = format!("'shape': ({},)", words.len());
    assert!(header.contains("'descr': '<f8'") && header.contains(&shape), "{header}");
    words.iter().copied().map(f64::from_le_bytes).collect()
}
