//! What clients must not do, and what they are told: always the right code, never a restart.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod util;

use serde_json::{Value, json};

use util::{Running, WIDTH, binary_request, request, rows, send};

/// JSON of a request with its one input changed.
fn changed(key: &str, value: Value) -> String {
    let mut body = request(&rows(2, 1.0));
    body["inputs"][0][key] = value;
    body.to_string()
}

fn http(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A post for scores with these headers beside its length.
fn infer(headers: &str, body: &[u8]) -> Vec<u8> {
    http(
        "POST",
        "/v2/models/net/infer",
        &format!("Content-Length: {}\r\n{headers}", body.len()),
        body,
    )
}

fn binary(length: &str, body: &[u8]) -> Vec<u8> {
    infer(&format!("Inference-Header-Content-Length: {length}\r\n"), body)
}

/// Each with its name, bytes and the codes that are right.
fn cases() -> Vec<(&'static str, Vec<u8>, u16)> {
    let good = request(&rows(2, 1.0)).to_string();
    let (length, bytes) = binary_request(&rows(2, 1.0), "");
    let json_length: usize = length.parse().unwrap();
    let sized = |size: i64| {
        let json = format!(
            r#"{{"inputs":[{{"name":"features","shape":[2,{WIDTH}],"datatype":"FP32","parameters":{{"binary_data_size":{size}}}}}]}}"#
        );
        let length = json.len().to_string();
        binary(&length, &[json.as_bytes(), &bytes[json_length..]].concat())
    };
    let with_nan = |bits: u32| {
        let mut bytes = bytes.clone();
        bytes[json_length + 4..json_length + 8].copy_from_slice(&bits.to_le_bytes());
        binary(&length, &bytes)
    };
    let json = |text: &str| infer("", text.as_bytes());
    let input = |text: &str| json(&format!(r#"{{"inputs":[{text}]}}"#));
    let twice = {
        let mut body = request(&rows(1, 1.0));
        let one = body["inputs"][0].clone();
        body["inputs"] = json!([one, one]);
        body.to_string()
    };
    let outputs = |outputs: Value| {
        let mut body = request(&rows(1, 1.0));
        body["outputs"] = outputs;
        json(&body.to_string())
    };
    let many_headers: String = (0..300).map(|k| format!("x-{k}: y\r\n")).collect();
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    vec![
        // JSON that is none, or something else.
        ("an empty body", json(""), 400),
        ("no JSON", json("features, please"), 400),
        ("a list", json("[]"), 400),
        ("a number", json("7"), 400),
        ("null", json("null"), 400),
        ("half a document", json(&good[..good.len() / 2]), 400),
        ("something behind the document", json(&format!("{good}{good}")), 400),
        ("no inputs", json("{}"), 400),
        ("inputs of another kind", json(r#"{"inputs":7}"#), 400),
        ("an empty list of inputs", json(r#"{"inputs":[]}"#), 400),
        ("an input that is a number", input("7"), 400),
        ("bytes that are no text", infer("", b"{\"inputs\":[{\"name\":\"\xff\xfe\"}]}"), 400),
        ("NaN in JSON", json(&good.replacen('1', "NaN", 1)), 400),
        (
            "lists that are too deep",
            json(&changed("data", json!("x")).replace("\"x\"", &deep)),
            400,
        ),
        ("an id that is no text", json(&good.replacen('{', "{\"id\":[1],", 1)), 400),
        // Tensors.
        ("no name", json(&good.replacen("\"name\"", "\"nome\"", 1)), 400),
        ("another name", json(&changed("name", json!("picture"))), 400),
        ("a name of half a megabyte", json(&changed("name", json!("n".repeat(1 << 19)))), 400),
        ("no shape", json(&good.replacen("\"shape\"", "\"form\"", 1)), 400),
        ("a shape that is too long", json(&changed("shape", json!(vec![1; 40]))), 400),
        ("no dimensions", json(&changed("shape", json!([]))), 400),
        ("one dimension", json(&changed("shape", json!([2 * WIDTH]))), 400),
        ("three dimensions", json(&changed("shape", json!([1, 2, WIDTH]))), 400),
        ("another width", json(&changed("shape", json!([WIDTH, 2]))), 400),
        ("a negative size", json(&changed("shape", json!([-2, WIDTH]))), 400),
        ("a size that is no whole number", json(&changed("shape", json!([2.5, WIDTH]))), 400),
        ("more rows than numbers", json(&changed("shape", json!([3, WIDTH]))), 400),
        ("fewer rows than numbers", json(&changed("shape", json!([1, WIDTH]))), 400),
        (
            "sizes whose product does not exist",
            json(&changed("shape", json!([i64::MAX, WIDTH]))),
            400,
        ),
        ("a size beyond all numbers", json(&changed("shape", json!([1e30, WIDTH]))), 400),
        ("no type", json(&good.replacen("\"datatype\"", "\"type\"", 1)), 400),
        ("an unknown type", json(&changed("datatype", json!("FP8"))), 400),
        ("whole numbers", json(&changed("datatype", json!("INT32"))), 400),
        ("a type in small letters", json(&changed("datatype", json!("fp32"))), 400),
        ("data that are text", json(&changed("data", json!("1,2,3"))), 400),
        ("data with text among them", json(&changed("data", json!(["a", "b"]))), 400),
        ("data with truth among them", json(&changed("data", json!(vec![true; 2 * WIDTH]))), 400),
        (
            "data with nothing among them",
            json(&changed("data", json!(vec![Value::Null; 2 * WIDTH]))),
            400,
        ),
        ("no data", json(&changed("data", Value::Null)), 400),
        (
            "a number too large for the type",
            json(&changed("data", json!(vec![1e300; 2 * WIDTH]))),
            400,
        ),
        (
            "shared memory",
            json(&changed("parameters", json!({ "shared_memory_region": "a" }))),
            400,
        ),
        ("an input twice", json(&twice), 400),
        ("an unknown output", outputs(json!([{ "name": "logits" }])), 400),
        ("an output twice", outputs(json!([{ "name": "score" }, { "name": "score" }])), 400),
        ("outputs of another kind", outputs(json!("score")), 400),
        // Binary tensors.
        ("NaN in bytes", with_nan(f32::NAN.to_bits()), 400),
        ("an infinity in bytes", with_nan(f32::INFINITY.to_bits()), 400),
        ("a length of JSON beyond the body", binary("99999", &bytes), 400),
        ("a length of JSON that is negative", binary("-1", &bytes), 400),
        ("a length of JSON that is text", binary("many", &bytes), 400),
        ("a length of JSON in its middle", binary("20", &bytes), 400),
        ("fewer bytes than are said", sized(4000), 400),
        ("a size for fewer bytes than there are", sized(60), 400),
        ("a negative size of bytes", sized(-64), 400),
        ("bytes that are missing", binary(&length, &bytes[..bytes.len() - 1]), 400),
        ("bytes too many", binary(&length, &[&bytes[..], b"x"].concat()), 400),
        ("a raw body that is no whole row", binary("0", &bytes[..33]), 400),
        // Encodings and sizes.
        ("gzip that is none", infer("Content-Encoding: gzip\r\n", good.as_bytes()), 400),
        ("an unknown encoding", infer("Content-Encoding: lzma\r\n", good.as_bytes()), 415),
        ("a body beyond the bound", infer("", &vec![b' '; (1 << 20) + 1]), 413),
        ("a gzip bomb", infer("Content-Encoding: gzip\r\n", &bomb()), 413),
        // Names of models.
        (
            "a model that is not there",
            http("POST", "/v2/models/x/infer", "Content-Length: 2\r\n", b"{}"),
            404,
        ),
        ("a path for a name", http("GET", "/v2/models/..%2f..%2fetc%2fpasswd", "", b""), 404),
        ("dots for a name", http("GET", "/v2/models/%2e%2e", "", b""), 404),
        ("a name that is no text", http("GET", "/v2/models/%ff", "", b""), 400),
        (
            "an index request that is too large",
            http(
                "POST",
                "/v2/repository/index",
                "Content-Length: 1100000\r\n",
                &vec![b' '; 1_100_000],
            ),
            413,
        ),
        (
            "rows of unequal length",
            json(&changed("data", json!([vec![1.0; WIDTH - 1], vec![1.0; WIDTH + 1]]))),
            400,
        ),
        ("dots in a path", http("GET", "/v2/models/../../../etc/passwd", "", b""), 404),
        ("a zero byte in a name", http("GET", "/v2/models/net%00", "", b""), 404),
        ("a path for a version", http("GET", "/v2/models/net/versions/..%2f1", "", b""), 404),
        (
            "a path to load",
            http("POST", "/v2/repository/models/..%2fnet/load", "Content-Length: 0\r\n", b""),
            404,
        ),
        // HTTP.
        ("another verb", http("DELETE", "/v2/models/net", "", b""), 405),
        ("a place that is none", http("GET", "/admin.php", "", b""), 404),
        ("three hundred headers", http("GET", "/v2", &many_headers, b""), 431),
        (
            "a header of a megabyte",
            http("GET", "/v2", &format!("x: {}\r\n", "y".repeat(1 << 20)), b""),
            431,
        ),
        (
            "an address of a megabyte",
            http("GET", &format!("/{}", "y".repeat(1 << 20)), "", b""),
            431,
        ),
        ("no HTTP", b"hello\r\n\r\n".to_vec(), 400),
        ("a version of HTTP that is none", b"GET / HTTP/9.9\r\n\r\n".to_vec(), 400),
        (
            "a length that is no number",
            http("POST", "/v2/models/net/infer", "Content-Length: x\r\n", b""),
            400,
        ),
        (
            "two lengths",
            http(
                "POST",
                "/v2/models/net/infer",
                "Content-Length: 1\r\nContent-Length: 2\r\n",
                b"{}",
            ),
            400,
        ),
        (
            "chunks that are none",
            http("POST", "/v2/models/net/infer", "Transfer-Encoding: chunked\r\n", b"zz\r\n"),
            400,
        ),
    ]
}

/// Ten megabytes of nothing.
fn bomb() -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 10 << 20]).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn every_malformed_request_gets_the_right_code_and_a_reason() {
    let server = Running::with(|config, _| config.max_body = 1 << 20);
    let cases = cases();
    assert!(cases.len() >= 60);
    let home = server.folder.path().display().to_string();
    let mut wrong = Vec::new();
    for (name, bytes, status) in cases {
        let Some(answer) = send(server.http(), &bytes) else {
            wrong.push(format!("{name}: no answer"));
            continue;
        };
        if answer.status != status {
            wrong.push(format!("{name}: {} in place of {status}: {answer:?}", answer.status));
        }
        // What hyper refuses before there is a request has no document.
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let ours = answer.headers.contains_key("x-request-id");
        if ours && answer.json()["error"].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("{name}: no reason: {text}"));
        }
        if text.contains(&home) || text.contains("/tmp") || text.len() > 2000 {
            wrong.push(format!("{name}: it says too much: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // After all of this it is the same server, and it scores.
    assert_eq!(server.infer("net", &request(&rows(2, 1.0))).status, 200);
    assert!(server.metrics().contains("\noffspan_panics_total 0\n"));
}

#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let server = Running::start();
    let bytes = infer("", request(&rows(2, 1.0)).to_string().as_bytes());
    for end in [1, 30, 80, bytes.len() / 2, bytes.len() - 1] {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(server.http()).unwrap();
        stream.write_all(&bytes[..end]).unwrap();
    }
    assert_eq!(server.infer("net", &request(&rows(2, 1.0))).status, 200);
}
