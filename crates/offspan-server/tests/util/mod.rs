//! A small detector, a running server, and a client that sends exactly what it is told to.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use offspan::io::Dataset;
use offspan::ndarray::Array2;
use offspan::{Detector, FitOptions, KnnParams, KpcaParams, MethodSpec};
use offspan_server::{Addresses, Config, Server, Span};
use serde_json::Value;

pub const WIDTH: usize = 8;

/// Rows that depend on nothing but their number.
pub fn rows(count: usize, shift: f32) -> Array2<f32> {
    Array2::from_shape_fn((count, WIDTH), |(i, j)| {
        let k = (i * 7919 + j * 104_729) % 10_007;
        k as f32 / 10_007.0 + if j == 0 { shift } else { 1.0 }
    })
}

fn fit(spec: &MethodSpec, hold_out: f64) -> Detector {
    let train = rows(600, 1.0);
    let data = Dataset::new("train", train.view());
    let options = FitOptions { hold_out: Some(hold_out), ..FitOptions::default() };
    Detector::fit(spec, &data, None, &options).unwrap()
}

pub fn detector() -> Detector {
    fit(&KnnParams { neighbours: 3, ..KnnParams::default() }.into(), 0.3)
}

/// Its scores differ from those of the first.
pub fn other_detector() -> Detector {
    fit(&MethodSpec::Kpca(KpcaParams::nystrom_uniform(64)), 0.3)
}

pub fn without_threshold() -> Detector {
    fit(&KnnParams { neighbours: 3, ..KnnParams::default() }.into(), 0.0)
}

/// A server on ports that the system chose, with its files.
pub struct Running {
    runtime: tokio::runtime::Runtime,
    server: Option<Server>,
    pub folder: tempfile::TempDir,
    pub addresses: Addresses,
}

impl Running {
    /// One model `net`, version 1.
    pub fn start() -> Self {
        Self::with(|_, _| {})
    }

    /// The same, with settings and files changed before it starts.
    pub fn with(change: impl FnOnce(&mut Config, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let models = folder.path().join("models");
        place(&models, "net", 1, &detector());
        let mut config = Config {
            models: vec![models.clone()],
            http: "127.0.0.1:0".to_owned(),
            grpc: "127.0.0.1:0".to_owned(),
            poll: Span(std::time::Duration::ZERO),
            ..Config::default()
        };
        change(&mut config, &models);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(Server::start(config)).unwrap();
        let addresses = server.addresses();
        Running { runtime, server: Some(server), folder, addresses }
    }

    pub fn models(&self) -> PathBuf {
        self.folder.path().join("models")
    }

    pub fn http(&self) -> SocketAddr {
        self.addresses.http.unwrap()
    }

    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }

    /// Begins to stop, and gives back at once.
    pub fn begin_to_stop(&mut self) -> tokio::task::JoinHandle<()> {
        let server = self.server.take().unwrap();
        self.runtime.spawn(server.stop())
    }

    pub fn wait(&self, task: tokio::task::JoinHandle<()>) {
        self.runtime.block_on(task).unwrap();
    }

    pub fn get(&self, path: &str) -> Answer {
        ask(self.http(), "GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(self.http(), "POST", path, headers, body)
    }

    /// Posts JSON for scores.
    pub fn infer(&self, model: &str, body: &Value) -> Answer {
        self.post(&format!("/v2/models/{model}/infer"), &[], body.to_string().as_bytes())
    }

    pub fn metrics(&self) -> String {
        self.get("/metrics").text()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Puts a detector where a server finds it.
pub fn place(models: &Path, name: &str, version: u64, detector: &Detector) {
    let folder = models.join(name).join(version.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    detector.save_over(folder.join("net.offspan")).unwrap();
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    /// Numbers of an output in JSON.
    pub fn doubles(&self, output: usize) -> Vec<f64> {
        let json = self.json();
        let data = json["outputs"][output]["data"].as_array().unwrap_or_else(|| panic!("{json}"));
        data.iter().map(|x| x.as_f64().unwrap()).collect()
    }
}

/// Sends a well-formed request.
pub fn ask(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if headers.iter().all(|(name, _)| *name != "Host") {
        head += &format!("Host: {to}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    send(to, &bytes).unwrap()
}

/// Sends any bytes; none if the connection was closed without an answer.
pub fn send(to: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(to).unwrap();
    // The server may answer and close before it has taken everything.
    let _ = stream.write_all(bytes);
    read_answer(&mut BufReader::new(stream))
}

/// Reads one answer.
pub fn read_answer(reader: &mut impl BufRead) -> Option<Answer> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let status = line.split_whitespace().nth(1)?.parse().ok()?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body).ok()?;
        }
        None => {
            let _ = reader.read_to_end(&mut body);
        }
    }
    Some(Answer { status, headers, body })
}

/// A request for scores, in JSON.
pub fn request(rows: &Array2<f32>) -> Value {
    let data: Vec<f64> = rows.iter().map(|&x| f64::from(x)).collect();
    serde_json::json!({
        "inputs": [{ "name": "features", "shape": rows.shape(), "datatype": "FP32", "data": data }]
    })
}

/// A request for scores with its numbers in bytes: the length of its JSON, and the body.
pub fn binary_request(rows: &Array2<f32>, extra: &str) -> (String, Vec<u8>) {
    let bytes: Vec<u8> = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
    let json = format!(
        r#"{{"inputs":[{{"name":"features","shape":{:?},"datatype":"FP32","parameters":{{"binary_data_size":{}}}}}]{extra}}}"#,
        rows.shape(),
        bytes.len()
    );
    let length = json.len().to_string();
    (length, [json.as_bytes(), &bytes].concat())
}
