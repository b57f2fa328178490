//! Batches, back-pressure, reloads, tokens, monitors, and the end: what a server does beside answering.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod util;

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use offspan::ndarray::{Array2, s};
use offspan_server::Span;
use serde_json::json;

use util::{
    Running, WIDTH, ask, binary_request, detector, other_detector, place, read_answer, request,
    rows, without_threshold,
};

const LONG: Span = Span(Duration::from_secs(3600));

/// Looks until something is as it should be. What is waited for is an event that must come.
fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

fn waits(server: &Running, rows: usize) {
    let line = format!("\noffspan_queue_rows {rows}\n");
    until(|| server.metrics().contains(&line));
}

fn metric(server: &Running, name: &str) -> f64 {
    let text = server.metrics();
    // One that is not there yet equals nothing.
    let line = text.lines().find(|line| line.starts_with(name));
    line.map_or(f64::NAN, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

// --- batches --------------------------------------------------------------------------------------------------------

#[test]
fn requests_that_come_together_are_scored_together_and_a_bad_one_alone_is_refused() {
    let server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.max_batch = 9;
    });
    let all = rows(9, 0.8);
    let expected = detector().score(all.view(), None).unwrap();
    let ask = |from: usize, to: usize| {
        let part = all.slice(s![from..to, ..]).to_owned();
        server.infer("net", &request(&part))
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| ask(0, 2));
        waits(&server, 2);
        let second = scope.spawn(|| ask(2, 5));
        waits(&server, 5);
        // The batch is full: nobody waits any longer.
        let third = ask(5, 9);
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!(first.doubles(0), expected.as_slice().unwrap()[..2]);
        assert_eq!(second.doubles(0), expected.as_slice().unwrap()[2..5]);
        assert_eq!(third.doubles(0), expected.as_slice().unwrap()[5..]);
    });
    assert_eq!(
        (metric(&server, "offspan_batch_rows_count"), metric(&server, "offspan_batch_rows_sum")),
        (1.0, 9.0)
    );
    std::thread::scope(|scope| {
        let good = scope.spawn(|| ask(0, 4));
        waits(&server, 4);
        let (length, mut body) = binary_request(&rows(5, 1.0), "");
        let at = body.len() - 4;
        body[at..].copy_from_slice(&f32::NAN.to_le_bytes());
        let headers = [("Inference-Header-Content-Length", length.as_str())];
        let bad = server.post("/v2/models/net/infer", &headers, &body);
        assert_eq!(bad.status, 400);
        assert_eq!(
            bad.error(),
            format!("features: row 4, column {} is NaN; every value must be finite", WIDTH - 1)
        );
        assert_eq!(good.join().unwrap().doubles(0), expected.as_slice().unwrap()[..4]);
    });
}

#[test]
fn a_large_request_is_scored_in_parts() {
    let server = Running::with(|config, _| {
        config.max_batch = 16;
        config.max_queue = 50;
    });
    let rows = rows(100, 0.8);
    let answer = server.infer("net", &request(&rows));
    assert_eq!(answer.doubles(0), detector().score(rows.view(), None).unwrap().to_vec());
    assert_eq!(metric(&server, "offspan_batch_rows_count"), 7.0);
    assert_eq!(metric(&server, "offspan_batch_rows_sum"), 100.0);
}

// --- back-pressure --------------------------------------------------------------------------------------------------

#[test]
fn a_full_queue_is_429_and_what_waits_is_answered_in_the_end() {
    let mut server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.max_queue = 4;
    });
    let address = server.http();
    let wait = |count: usize| {
        let body = request(&rows(count, 1.0)).to_string();
        std::thread::spawn(move || {
            ask(address, "POST", "/v2/models/net/infer", &[], body.as_bytes())
        })
    };
    let first = wait(2);
    waits(&server, 2);
    let second = wait(2);
    waits(&server, 4);
    let answer = server.infer("net", &request(&rows(1, 1.0)));
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (429, "1"));
    assert!(answer.error().starts_with("4 rows are waiting already, and at most 4 may"));
    assert!(server.metrics().contains("offspan_rejected_total{reason=\"queue\"} 1\n"));
    // A server that ends finishes what it began.
    server.stop();
    assert_eq!([first, second].map(|thread| thread.join().unwrap().status), [200, 200]);
}

#[test]
fn a_request_that_takes_too_long_is_504() {
    let server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.timeout = "50ms".parse().unwrap();
    });
    let answer = server.infer("net", &request(&rows(1, 1.0)));
    assert_eq!(
        (answer.status, answer.error()),
        (504, "the rows were not scored within 50ms".to_owned())
    );
}

#[test]
fn a_body_that_does_not_arrive_is_408_and_keeps_nobody_waiting() {
    let server = Running::with(|config, _| config.timeout = "200ms".parse().unwrap());
    let mut slow = TcpStream::connect(server.http()).unwrap();
    slow.write_all(
        b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    )
    .unwrap();
    assert_eq!(server.infer("net", &request(&rows(1, 1.0))).status, 200);
    assert_eq!(read_answer(&mut BufReader::new(slow)).unwrap().status, 408);
}

#[test]
fn slow_clients_are_cut_and_starve_nobody() {
    let server = Running::with(|config, _| {
        config.idle_timeout = "300ms".parse().unwrap();
        config.max_connections = 60;
    });
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            stream.write_all(b"GET /v2 HTTP/1.1\r\nHo").unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.infer("net", &request(&rows(1, 1.0))).status, 200);
    }
    // The server ends these connections; without that, reading would never end.
    for stream in &mut slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    until(|| metric(&server, "offspan_connections") <= 1.0);
}

#[test]
fn connections_beyond_the_bound_are_turned_away_at_once() {
    let server = Running::with(|config, _| config.max_connections = 2);
    let hold = || {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        stream.write_all(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let answer = read_answer(&mut BufReader::new(stream.try_clone().unwrap())).unwrap();
        (answer.status, stream)
    };
    let (first, second) = (hold(), hold());
    assert_eq!((first.0, second.0), (200, 200));
    let third = hold();
    assert_eq!(third.0, 503);
    drop((first, third));
    until(|| hold().0 == 200);
}

#[test]
fn memory_for_bodies_is_bounded() {
    let server = Running::with(|config, _| {
        config.max_body = 1 << 20;
        config.max_memory = 1 << 20;
    });
    // Most of it is held by a request that does not end.
    let mut slow = TcpStream::connect(server.http()).unwrap();
    let head = format!(
        "POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        900_000
    );
    slow.write_all(head.as_bytes()).unwrap();
    slow.write_all(&vec![b' '; 800_000]).unwrap();
    until(|| metric(&server, "offspan_body_bytes") >= 800_000.0);
    let body = vec![b' '; 500_000];
    assert_eq!(server.post("/v2/models/net/infer", &[], &body).status, 429);
    drop(slow);
    until(|| metric(&server, "offspan_body_bytes") == 0.0);
    assert_eq!(server.post("/v2/models/net/infer", &[], &body).status, 400);
    // What is made of a body counts as well: numbers in text take less room than in memory.
    let zeros = "0,".repeat(200_000) + "0";
    let text = format!(
        r#"{{"inputs":[{{"name":"features","shape":[1,200001],"datatype":"FP32","data":[{zeros}]}}]}}"#
    );
    let answer = server.post("/v2/models/net/infer", &[], text.as_bytes());
    assert_eq!(answer.status, 413, "{answer:?}");
    until(|| metric(&server, "offspan_body_bytes") == 0.0);
}

// --- HTTP/2 ---------------------------------------------------------------------------------------------------------

/// A request for scores over gRPC, with its rows as raw contents.
fn grpc_request(server: &Running, rows: &Array2<f32>) -> hyper::Request<Full<Bytes>> {
    let field = |number: u8, bytes: &[u8]| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        field.extend(bytes);
        field
    };
    let mut shape = Vec::new();
    rows.shape().iter().for_each(|&size| prost::encoding::encode_varint(size as u64, &mut shape));
    let input = [field(1, b"features"), field(2, b"FP32"), field(3, &shape)].concat();
    let raw: Vec<u8> = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
    let message = [field(1, b"net"), field(5, &input), field(7, &raw)].concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = Bytes::from([&[0][..], &length, &message].concat());
    hyper::Request::post(format!(
        "http://{}/inference.GRPCInferenceService/ModelInfer",
        server.addresses.grpc.unwrap()
    ))
    .header("content-type", "application/grpc")
    .header("te", "trailers")
    .body(Full::new(body))
    .unwrap()
}

/// A client that takes so many bytes of an answer before it is asked for more.
async fn http2(server: &Running, window: u32) -> SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(server.addresses.grpc.unwrap()).await.unwrap();
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[test]
fn rows_that_wait_over_grpc_hold_their_memory_and_give_it_back() {
    let server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.max_batch = 20_000;
        config.max_queue = 100_000;
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut sender = runtime.block_on(http2(&server, 1 << 20));
    let answer = sender.send_request(grpc_request(&server, &rows(10_000, 1.0)));
    let asked =
        runtime.spawn(async move { answer.await.unwrap().into_body().collect().await.unwrap() });
    waits(&server, 10_000);
    let held = metric(&server, "offspan_body_bytes");
    assert!(held >= (10_000 * WIDTH * 4) as f64, "{held}");
    // The batch is full now.
    assert_eq!(server.infer("net", &request(&rows(10_000, 1.0))).status, 200);
    let answer = runtime.block_on(asked).unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], "0");
    until(|| metric(&server, "offspan_body_bytes") == 0.0);
}

#[test]
fn rows_that_wait_hold_their_memory_also_where_nobody_waits_for_them() {
    let server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.max_batch = 20_000;
        config.max_queue = 100_000;
        config.timeout = "1s".parse().unwrap();
    });
    let (length, body) = binary_request(&rows(10_000, 1.0), "");
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    let ask = || server.post("/v2/models/net/infer", &headers, &body).status;
    assert_eq!(ask(), 504);
    waits(&server, 10_000);
    let held = metric(&server, "offspan_body_bytes");
    assert!(held >= (10_000 * WIDTH * 4) as f64, "{held}");
    // The batch is full now.
    assert_eq!(ask(), 200);
    until(|| metric(&server, "offspan_body_bytes") == 0.0);
}

#[test]
fn answers_that_nobody_takes_and_connections_of_no_use_are_given_up() {
    let server = Running::with(|config, _| config.idle_timeout = "1s".parse().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (answer, _idle) = runtime.block_on(async {
        let mut sender = http2(&server, 16).await;
        let answer = sender.send_request(grpc_request(&server, &rows(10_000, 1.0))).await.unwrap();
        // Pings are answered, and nothing else is done.
        (answer, http2(&server, 1 << 20).await)
    });
    assert_eq!(answer.status(), 200);
    assert!(metric(&server, "offspan_body_bytes") >= 170_000.0);
    until(|| metric(&server, "offspan_connections") == 1.0);
    until(|| metric(&server, "offspan_body_bytes") == 0.0);
    let rest = runtime.block_on(answer.into_body().collect());
    assert!(rest.is_err(), "the answer was cut");
}

#[test]
fn requests_that_find_no_memory_are_counted() {
    let server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.max_batch = 100_000;
        config.max_queue = 200_000;
        config.max_body = 1 << 20;
        config.max_memory = 1 << 20;
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut sender = runtime.block_on(http2(&server, 1 << 20));
    let _asked = runtime.spawn(sender.send_request(grpc_request(&server, &rows(8_000, 1.0))));
    waits(&server, 8_000);
    let (length, body) = binary_request(&rows(20_000, 1.0), "");
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    assert_eq!(server.post("/v2/models/net/infer", &headers, &body).status, 429);
    assert_eq!(metric(&server, "offspan_rejected_total{reason=\"memory\"}"), 1.0);
}

// --- reloads --------------------------------------------------------------------------------------------------------

#[test]
fn a_new_file_replaces_the_old_one_and_a_broken_one_does_not() {
    let server = Running::with(|config, _| config.poll = "10ms".parse().unwrap());
    let rows = rows(6, 0.9);
    let scores = |d: offspan::Detector| d.score(rows.view(), None).unwrap().to_vec();
    let (one, other) = (scores(detector()), scores(other_detector()));
    assert_ne!(one, other);
    place(&server.models(), "net", 1, &other_detector());
    until(|| server.infer("net", &request(&rows)).doubles(0) == other);
    let file = server.models().join("net/1/net.offspan");
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, &good[..good.len() / 2]).unwrap();
    until(|| server.metrics().contains("offspan_model_stale{model=\"net\",version=\"1\"} 1\n"));
    assert_eq!(server.infer("net", &request(&rows)).doubles(0), other);
    assert_eq!(server.get("/v2/health/ready").status, 200);
    let reason = server.post("/v2/repository/index", &[], b"").json()[0]["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.starts_with("the one before is served: net.offspan"), "{reason}");
    assert!(!reason.contains(&server.folder.path().display().to_string()));
    let answer = server.post("/v2/repository/models/net/load", &[], b"");
    assert_eq!(answer.status, 400);
    // A file that is gone changes nothing either, and the next good one is taken.
    std::fs::remove_file(&file).unwrap();
    until(|| {
        server.post("/v2/repository/index", &[], b"").text().contains("expected one detector")
    });
    assert_eq!(server.infer("net", &request(&rows)).doubles(0), other);
    place(&server.models(), "net", 1, &detector());
    until(|| server.infer("net", &request(&rows)).doubles(0) == one);
    assert!(server.metrics().contains("offspan_model_stale{model=\"net\",version=\"1\"} 0\n"));
}

#[test]
fn versions_come_and_go_with_their_folders() {
    let server = Running::with(|config, _| config.poll = "10ms".parse().unwrap());
    place(&server.models(), "net", 2, &other_detector());
    until(|| server.infer("net", &request(&rows(1, 1.0))).json()["model_version"] == "2");
    place(&server.models(), "new", 7, &detector());
    until(|| server.get("/v2/models/new/ready").status == 200);
    std::fs::remove_dir_all(server.models().join("net/2")).unwrap();
    until(|| server.infer("net", &request(&rows(1, 1.0))).json()["model_version"] == "1");
    std::fs::remove_dir_all(server.models().join("new")).unwrap();
    until(|| server.get("/v2/models/new").status == 404);
    assert!(!server.metrics().contains("model=\"new\""));
}

/// The short form of what `bench/serve.py` does 200 times.
#[test]
fn no_answer_is_lost_or_mixed_while_models_are_replaced() {
    let server = Running::start();
    let rows = rows(50, 0.9);
    let score = |d: &offspan::Detector| d.score(rows.view(), None).unwrap().to_vec();
    let detectors = [detector(), other_detector()];
    let expected = detectors.each_ref().map(score);
    let body = request(&rows);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        let answer = server.infer("net", &body);
                        assert_eq!(answer.status, 200, "{answer:?}");
                        assert!(
                            expected.contains(&answer.doubles(0)),
                            "an answer of two detectors"
                        );
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for round in 0..20 {
            place(&server.models(), "net", 1, &detectors[round % 2]);
            assert_eq!(server.post("/v2/repository/models/net/load", &[], b"").status, 200);
        }
        done.store(true, Ordering::Relaxed);
        for asker in askers {
            assert!(asker.join().unwrap() > 0);
        }
    });
}

// --- who may ask ----------------------------------------------------------------------------------------------------

#[test]
fn tokens_open_everything_but_probes_and_the_page_itself() {
    let server = Running::with(|config, models| {
        let file = models.join("../tokens");
        std::fs::write(&file, "a-long-enough-token\n").unwrap();
        config.token_file = Some(file);
    });
    for path in ["/", "/v2/health/live", "/v2/health/ready"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/v2", "/metrics", "/live", "/v2/models/net", "/nowhere"] {
        let answer = server.get(path);
        assert_eq!(
            (answer.status, answer.headers["www-authenticate"].as_str()),
            (401, "Bearer"),
            "{path}"
        );
    }
    let with = |token: &str| {
        let value = format!("Bearer {token}");
        ask(server.http(), "GET", "/v2", &[("Authorization", &value)], b"").status
    };
    assert_eq!((with("a-long-enough-token"), with("a-long-enough-tokem")), (200, 401));
}

#[test]
fn an_admin_address_takes_over_what_changes_things() {
    let server = Running::with(|config, models| {
        let file = models.join("../tokens");
        std::fs::write(&file, "the-token-of-admins\n").unwrap();
        config.admin = Some("127.0.0.1:0".to_owned());
        config.admin_token_file = Some(file);
    });
    let answer = server.post("/v2/repository/models/net/load", &[], b"");
    assert_eq!(
        (answer.status, answer.error()),
        (403, "models are loaded and unloaded at the admin address".into())
    );
    assert_eq!(server.get("/metrics").status, 404);
    let admin = server.addresses.admin.unwrap();
    let token = ("Authorization", "Bearer the-token-of-admins");
    assert_eq!(ask(admin, "POST", "/v2/repository/models/net/load", &[], b"").status, 401);
    assert_eq!(ask(admin, "POST", "/v2/repository/models/net/load", &[token], b"").status, 200);
    assert_eq!(ask(admin, "GET", "/metrics", &[token], b"").status, 200);
    assert_eq!(ask(admin, "POST", "/v2/models/net/infer", &[token], b"").status, 404);
}

#[test]
fn the_tokens_of_everyone_guard_an_admin_address_that_has_none() {
    let server = Running::with(|config, models| {
        let file = models.join("../tokens");
        std::fs::write(&file, "a-long-enough-token\n").unwrap();
        config.admin = Some("0.0.0.0:0".to_owned());
        config.token_file = Some(file);
    });
    let port = server.addresses.admin.unwrap().port();
    let admin = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let unload = |headers: &[(&str, &str)]| {
        ask(admin, "POST", "/v2/repository/models/net/unload", headers, b"").status
    };
    assert_eq!(unload(&[]), 401);
    assert_eq!(server.get("/v2/health/ready").status, 200);
    assert_eq!(unload(&[("Authorization", "Bearer a-long-enough-token")]), 200);
}

#[test]
fn an_admin_address_that_others_reach_takes_tokens() {
    let models = tempfile::tempdir().unwrap();
    place(models.path(), "net", 1, &detector());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = offspan_server::Config {
        models: vec![models.path().to_owned()],
        http: "127.0.0.1:0".to_owned(),
        grpc: "off".to_owned(),
        admin: Some("0.0.0.0:0".to_owned()),
        ..offspan_server::Config::default()
    };
    let error = runtime.block_on(offspan_server::Server::start(config)).err().unwrap().to_string();
    assert!(error.contains("expected admin_token_file or token_file"), "{error}");
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let server = Running::start();
    let refused = [
        [("Host", "evil.example:8000"), ("X-Request-Id", "by-name")],
        [("Host", "localhost:8000"), ("Origin", "http://evil.example")],
        [("Host", "localhost:8000"), ("Origin", "null")],
    ];
    for headers in refused {
        for path in [
            "/v2/repository/models/net/unload",
            "/v2/repository/models/net/load",
            "/v2/models/net/monitor/reset",
            "/v2/models/net/versions/1/monitor/reset",
        ] {
            let answer = server.post(path, &headers, b"");
            assert_eq!(answer.status, 403, "{path} {headers:?}");
            assert!(answer.error().starts_with("expected"));
        }
        // Reading and scoring are for everyone who asks.
        let body = request(&rows(1, 1.0)).to_string();
        assert_eq!(server.post("/v2/models/net/infer", &headers, body.as_bytes()).status, 200);
    }
    let own = [("Host", "localhost:8000"), ("Origin", "http://localhost:8000")];
    assert_eq!(server.post("/v2/models/net/monitor/reset", &own, b"").status, 200);
}

#[test]
fn metrics_may_have_an_address_of_their_own() {
    let server = Running::with(|config, _| config.metrics = Some("127.0.0.1:0".to_owned()));
    assert_eq!(server.get("/metrics").status, 404);
    let metrics = server.addresses.metrics.unwrap();
    let text = ask(metrics, "GET", "/metrics", &[], b"").text();
    assert!(text.contains("offspan_build_info{version="));
    assert_eq!(ask(metrics, "GET", "/v2", &[], b"").status, 404);
}

// --- what is told ---------------------------------------------------------------------------------------------------

#[test]
fn requests_keep_their_ids_and_traces() {
    let server = Running::start();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("X-Request-Id", "mine"), ("traceparent", parent), ("tracestate", "a=1")];
    let answer = ask(server.http(), "GET", "/v2", &headers, b"");
    assert_eq!(answer.headers["x-request-id"], "mine");
    assert!(answer.headers["traceparent"].starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    assert_ne!(answer.headers["traceparent"], parent);
    assert_eq!(answer.headers["tracestate"], "a=1");
}

#[test]
fn rows_called_out_are_listed_by_id_and_kept_only_where_asked() {
    let far = rows(3, -30.0);
    let mut body = request(&far);
    body["id"] = json!("far ones");
    let flagged = |server: &Running| {
        assert_eq!(server.infer("net", &body).status, 200);
        server.get("/v2/models/net/flagged").json()["rows"].clone()
    };
    let listed = flagged(&Running::start());
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_eq!(
        (&listed[0]["id"], &listed[0]["row"], &listed[0]["sample"]),
        (&json!("far ones"), &json!(2), &json!(null))
    );
    let kept = flagged(&Running::with(|config, _| config.keep_samples = 2));
    let samples: Vec<bool> =
        kept.as_array().unwrap().iter().map(|row| row["sample"].is_array()).collect();
    assert_eq!(samples, [true, true, false]);
    assert_eq!(kept[0]["sample"].as_array().unwrap().len(), WIDTH);
    assert_eq!(kept[0]["sample"][0].as_f64().unwrap() as f32, far[[2, 0]]);
}

#[test]
fn a_long_id_comes_back_whole_and_is_kept_short() {
    let server = Running::start();
    let mut body = request(&rows(100, -30.0));
    let id = "i".repeat(1 << 20);
    body["id"] = json!(id);
    let answer = server.infer("net", &body);
    assert_eq!(answer.json()["id"], json!(id));
    let listed = server.get("/v2/models/net/flagged");
    assert_eq!(listed.json()["rows"].as_array().unwrap().len(), 50);
    assert!(listed.body.len() < 50_000, "{}", listed.body.len());
}

#[test]
fn metrics_count_rows_requests_and_scores() {
    let server = Running::start();
    server.infer("net", &request(&rows(5, 1.0)));
    server.infer("net", &request(&rows(3, -30.0)));
    server.infer("net", &json!({}));
    server.infer("none", &json!({}));
    let text = server.metrics();
    let out = metric(&server, "offspan_rows_total{model=\"net\",version=\"1\",decision=\"out\"}");
    assert!((3.0..=4.0).contains(&out), "{text}");
    for line in [
        "offspan_requests_total{model=\"net\",version=\"1\",protocol=\"rest\",code=\"200\"} 2",
        "offspan_requests_total{model=\"net\",version=\"1\",protocol=\"rest\",code=\"400\"} 1",
        "offspan_other_requests_total{code=\"404\"} 1",
        "offspan_score_count{model=\"net\",version=\"1\"} 8",
        "offspan_request_duration_seconds_count{model=\"net\",version=\"1\"} 3",
        "offspan_promised_out_ratio{model=\"net\",version=\"1\"} 0.05",
        "offspan_model_stale{model=\"net\",version=\"1\"} 0",
    ] {
        let close = line.replace("0.05", "0.050000000000000044");
        assert!(text.lines().any(|found| found == line || found == close), "{line} in\n{text}");
    }
    until(|| metric(&server, "offspan_monitor_rows{") == 8.0);
}

#[test]
fn rows_without_a_threshold_have_no_decision() {
    let server = Running::with(|_, models| place(models, "bare", 1, &without_threshold()));
    assert_eq!(server.infer("bare", &request(&rows(5, 1.0))).status, 200);
    let count = |decision: &str| {
        let labels = format!("{{model=\"bare\",version=\"1\",decision=\"{decision}\"}}");
        metric(&server, &format!("offspan_rows_total{labels}"))
    };
    assert_eq!((count("in"), count("out"), count("none")), (0.0, 0.0, 5.0));
}

#[test]
fn the_page_and_its_events_come_from_the_server_alone() {
    let server = Running::start();
    server.infer("net", &request(&rows(5, 1.0)));
    let page = server.get("/");
    let text = page.text();
    assert!(page.headers["content-security-policy"].starts_with("default-src 'none'"));
    for outside in ["http://", "https://", "src=\"//", "@import"] {
        // The name of SVG is no address.
        assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
    }
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    until(|| {
        let count = stream.read(&mut buffer).unwrap();
        seen += &String::from_utf8_lossy(&buffer[..count]);
        seen.contains("event: all") && seen.contains("event: tick")
    });
    assert!(seen.contains("text/event-stream"));
    assert!(seen.contains("\"name\":\"net\""));
}

// --- drift ----------------------------------------------------------------------------------------------------------

#[test]
fn an_alarm_of_which_nobody_was_told_is_told_by_the_next_server() {
    let folder = tempfile::tempdir().unwrap();
    let (state, told) = (folder.path().join("state"), folder.path().join("told"));
    let start = |command: String| {
        Running::with(|config, _| {
            config.state = Some(state.clone());
            config.state_interval = LONG;
            config.on_alarm = Some(command);
        })
    };
    let tell = format!("cat >> {}", told.display());
    let server = start("false".to_owned());
    server.infer("net", &request(&rows(500, -30.0)));
    until(|| metric(&server, "offspan_alarm_calls_total{outcome=\"failed\"}") >= 1.0);
    drop(server);
    let lines = || std::fs::read_to_string(&told).unwrap_or_default().matches("schema").count();
    // The first that can tells all of them, and the second none.
    drop(start(tell.clone()));
    let first = lines();
    assert!(first > 0);
    drop(start(tell));
    assert_eq!(lines(), first);
}

#[test]
fn drift_raises_an_alarm_that_is_told_and_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (state, told) = (folder.path().join("state"), folder.path().join("told.json"));
    let start = || {
        Running::with(|config, _| {
            config.state = Some(state.clone());
            config.state_interval = "10ms".parse().unwrap();
            config.on_alarm = Some(format!("cat > {0}.new && mv {0}.new {0}", told.display()));
        })
    };
    let server = start();
    let alarm = "offspan_monitor_alarm{model=\"net\",version=\"1\",kind=\"share\"}";
    for _ in 0..5 {
        server.infer("net", &request(&rows(100, -30.0)));
    }
    until(|| metric(&server, "offspan_monitor_rows{") == 500.0);
    assert_eq!(metric(&server, alarm), 1.0);
    until(|| told.exists());
    let event: serde_json::Value = serde_json::from_slice(&std::fs::read(&told).unwrap()).unwrap();
    assert_eq!((&event["schema"], &event["model"]), (&json!("offspan.alarm/1"), &json!("net")));
    until(|| metric(&server, "offspan_monitor_saved_rows{") == 500.0);
    let since = metric(
        &server,
        "offspan_monitor_alarm_timestamp_seconds{model=\"net\",version=\"1\",kind=\"share\"}",
    );
    drop(server);
    // The next server goes on where it was.
    let server = start();
    until(|| metric(&server, "offspan_monitor_rows{") == 500.0);
    assert_eq!(metric(&server, alarm), 1.0);
    server.infer("net", &request(&rows(1, 1.0)));
    until(|| metric(&server, "offspan_monitor_rows{") == 501.0);
    assert_eq!(metric(&server, alarm), 1.0);
    let again = metric(
        &server,
        "offspan_monitor_alarm_timestamp_seconds{model=\"net\",version=\"1\",kind=\"share\"}",
    );
    assert_eq!(since, again);
    assert_eq!(server.post("/v2/models/net/monitor/reset", &[], b"").status, 200);
    assert_eq!((metric(&server, alarm), metric(&server, "offspan_monitor_rows{")), (0.0, 0.0));
}

#[test]
fn a_state_folder_is_for_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Running::with(|config, _| config.state = Some(folder.path().to_owned()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let models = tempfile::tempdir().unwrap();
    place(models.path(), "net", 1, &detector());
    let config = offspan_server::Config {
        models: vec![models.path().to_owned()],
        http: "127.0.0.1:0".to_owned(),
        grpc: "off".to_owned(),
        state: Some(folder.path().to_owned()),
        ..offspan_server::Config::default()
    };
    let error = runtime.block_on(offspan_server::Server::start(config)).err().unwrap().to_string();
    assert!(error.ends_with("another server keeps its state there"), "{error}");
}

#[test]
fn a_long_stream_begins_anew_so_that_memory_stays_bounded() {
    let server = Running::with(|config, _| config.monitor_rows = 1000);
    for _ in 0..12 {
        server.infer("net", &request(&rows(100, 1.0)));
    }
    until(|| metric(&server, "offspan_monitor_rows{") == 200.0);
}

#[test]
fn an_alarm_outlives_the_stream_that_raised_it() {
    let server = Running::with(|config, _| config.monitor_rows = 1000);
    let share = "{model=\"net\",version=\"1\",kind=\"share\"}";
    let since = || metric(&server, &format!("offspan_monitor_alarm_timestamp_seconds{share}"));
    server.infer("net", &request(&rows(500, -30.0)));
    until(|| metric(&server, "offspan_monitor_rows{") == 500.0);
    let first = since();
    assert!(first > 0.0);
    for _ in 0..7 {
        server.infer("net", &request(&rows(100, 1.0)));
    }
    until(|| metric(&server, "offspan_monitor_rows{") == 200.0);
    assert_eq!((metric(&server, &format!("offspan_monitor_alarm{share}")), since()), (1.0, first));
    assert_eq!(server.post("/v2/models/net/monitor/reset", &[], b"").status, 200);
    assert_eq!(since(), 0.0);
}

// --- the end --------------------------------------------------------------------------------------------------------

#[test]
fn readiness_ends_first_then_connections_then_the_server() {
    let mut server = Running::with(|config, _| {
        config.batch_delay = LONG;
        config.drain = "300ms".parse().unwrap();
    });
    let address = server.http();
    let body = request(&rows(2, 1.0)).to_string();
    let waiting = std::thread::spawn(move || {
        ask(address, "POST", "/v2/models/net/infer", &[], body.as_bytes())
    });
    waits(&server, 2);
    let stopping = server.begin_to_stop();
    until(|| server.get("/v2/health/ready").status == 400);
    // Still served while it says so.
    assert_eq!(server.get("/v2/models/net").status, 200);
    assert_eq!(waiting.join().unwrap().status, 200);
    server.wait(stopping);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn models_that_cannot_be_served_are_said_at_the_start() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let start = |config: offspan_server::Config| {
        let config =
            offspan_server::Config { http: "127.0.0.1:0".into(), grpc: "off".into(), ..config };
        runtime.block_on(offspan_server::Server::start(config)).err().unwrap().to_string()
    };
    let of = |path: &std::path::Path| offspan_server::Config {
        models: vec![path.to_owned()],
        ..offspan_server::Config::default()
    };
    let folder = tempfile::tempdir().unwrap();
    assert!(start(of(folder.path())).contains("found none"));
    assert!(start(of(&folder.path().join("missing"))).contains("cannot open"));
    let file = folder.path().join("net.offspan");
    std::fs::write(&file, b"no detector").unwrap();
    assert!(start(of(&file)).starts_with("net, version 1: net.offspan"), "{}", start(of(&file)));
}

#[test]
fn a_broken_model_at_the_start_keeps_no_other_from_being_served() {
    let server = Running::with(|_, models| {
        place(models, "broken", 1, &detector());
        std::fs::write(models.join("broken/1/net.offspan"), b"no detector").unwrap();
    });
    assert_eq!(server.infer("net", &request(&rows(1, 1.0))).status, 200);
    assert_eq!(server.infer("broken", &request(&rows(1, 1.0))).status, 503);
    assert_eq!(server.get("/v2/health/ready").status, 400);
    let index = server.post("/v2/repository/index", &[], b"").json();
    assert_eq!((&index[0]["name"], &index[0]["state"]), (&json!("broken"), &json!("UNAVAILABLE")));
    place(&server.models(), "broken", 1, &detector());
    assert_eq!(server.post("/v2/repository/models/broken/load", &[], b"").status, 200);
    assert_eq!(server.get("/v2/health/ready").status, 200);
}
