//! The protocol's documents, clause by clause: Open Inference Protocol (REST), and the extensions for binary tensors and
//! model repositories. gRPC is gone through with Triton's own client in `python/tests/serve`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod util;

use std::sync::LazyLock;

use offspan::ndarray::{Array2, s};
use offspan_server::Config;
use serde_json::{Value, json};

use util::{Running, WIDTH, binary_request, detector, other_detector, place, request, rows};

/// One server for all questions that change nothing.
static SERVER: LazyLock<Running> = LazyLock::new(|| {
    Running::with(|_, models| {
        place(models, "net", 3, &other_detector());
        place(models, "plain", 1, &util::without_threshold());
    })
});

const HEADER: &str = "Inference-Header-Content-Length";

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
}

// --- health ---------------------------------------------------------------------------------------------------------

#[test]
fn live_and_ready_are_codes_of_200_with_a_document() {
    let live = SERVER.get("/v2/health/live");
    assert_eq!((live.status, live.json()), (200, json!({ "live": true })));
    let ready = SERVER.get("/v2/health/ready");
    assert_eq!((ready.status, ready.json()["ready"].clone()), (200, json!(true)));
}

#[test]
fn a_model_is_ready_by_name_and_by_version_and_others_are_not() {
    for path in [
        "/v2/models/net/ready",
        "/v2/models/net/versions/1/ready",
        "/v2/models/net/versions/3/ready",
    ] {
        let answer = SERVER.get(path);
        assert_eq!((answer.status, &answer.json()["ready"]), (200, &json!(true)), "{path}");
    }
    for path in [
        "/v2/models/none/ready",
        "/v2/models/net/versions/2/ready",
        "/v2/models/net/versions/x/ready",
    ] {
        let answer = SERVER.get(path);
        assert_eq!((answer.status, &answer.json()["ready"]), (400, &json!(false)), "{path}");
    }
}

// --- metadata -------------------------------------------------------------------------------------------------------

#[test]
fn the_server_has_a_name_a_version_and_extensions() {
    let about = SERVER.get("/v2").json();
    assert_eq!(about["name"], "offspan");
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about["extensions"], json!(["binary_tensor_data", "model_repository"]));
}

#[test]
fn a_model_has_versions_a_platform_inputs_and_outputs() {
    let about = SERVER.get("/v2/models/net").json();
    assert_eq!(about["name"], "net");
    assert_eq!(about["versions"], json!(["1", "3"]));
    assert!(about["platform"].as_str().unwrap().starts_with("offspan_"));
    assert_eq!(
        about["inputs"],
        json!([{ "name": "features", "datatype": "FP32", "shape": [-1, WIDTH] }])
    );
    assert_eq!(
        about["outputs"],
        json!([
            { "name": "score", "datatype": "FP64", "shape": [-1] },
            { "name": "p_value", "datatype": "FP64", "shape": [-1] },
            { "name": "is_ood", "datatype": "BOOL", "shape": [-1] },
        ])
    );
    let versions: Vec<Value> = [1, 3]
        .map(|v| SERVER.get(&format!("/v2/models/net/versions/{v}")).json()["platform"].clone())
        .into();
    assert_ne!(versions[0], versions[1]);
    let answer = SERVER.get("/v2/models/none");
    assert_eq!((answer.status, answer.error()), (404, "there is no model `none`".to_owned()));
}

#[test]
fn a_model_without_a_threshold_gives_scores_alone() {
    let about = SERVER.get("/v2/models/plain").json();
    assert_eq!(about["outputs"].as_array().unwrap().len(), 1);
    let answer = SERVER.infer("plain", &request(&rows(2, 1.0)));
    assert_eq!(answer.json()["outputs"].as_array().unwrap().len(), 1);
    let mut wants_p = request(&rows(2, 1.0));
    wants_p["outputs"] = json!([{ "name": "p_value" }]);
    let answer = SERVER.infer("plain", &wants_p);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.error(), "expected outputs among score, got `p_value`");
}

// --- inference in JSON ----------------------------------------------------------------------------------------------

#[test]
fn scores_are_those_of_the_library_to_the_last_bit() {
    let rows = rows(40, 0.7);
    let expected = other_detector().score(rows.view(), None).unwrap();
    let answer = SERVER.infer("net", &request(&rows));
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    assert_eq!(
        (json["model_name"].clone(), json["model_version"].clone()),
        (json!("net"), json!("3"))
    );
    assert!(json.get("id").is_none());
    assert_eq!(answer.doubles(0), expected.to_vec());
    for output in 0..3 {
        assert_eq!(json["outputs"][output]["shape"], json!([40]));
    }
    // Row by row they are the same: a score does not depend on the rows beside it.
    for row in [0, 17, 39] {
        let one = rows.slice(s![row..=row, ..]).to_owned();
        assert_eq!(SERVER.infer("net", &request(&one)).doubles(0), [expected[row]]);
    }
}

#[test]
fn a_version_can_be_asked_for() {
    let rows = rows(5, 1.0);
    let body = request(&rows).to_string();
    let answer = SERVER.post("/v2/models/net/versions/1/infer", &[], body.as_bytes());
    assert_eq!(answer.json()["model_version"], "1");
    assert_eq!(answer.doubles(0), detector().score(rows.view(), None).unwrap().to_vec());
    let answer = SERVER.post("/v2/models/net/versions/2/infer", &[], body.as_bytes());
    assert_eq!((answer.status, answer.error()), (404, "model `net` has no version `2`".to_owned()));
}

#[test]
fn the_id_comes_back() {
    let mut body = request(&rows(1, 1.0));
    body["id"] = json!("order 66");
    assert_eq!(SERVER.infer("net", &body).json()["id"], "order 66");
}

#[test]
fn outputs_come_in_the_order_in_which_they_were_asked_for() {
    let mut body = request(&rows(3, -9.0));
    body["outputs"] = json!([{ "name": "is_ood" }, { "name": "score" }]);
    let json = SERVER.infer("net", &body).json();
    assert_eq!(json["outputs"][0]["name"], "is_ood");
    assert_eq!(json["outputs"][0]["data"], json!([true, true, true]));
    assert_eq!(json["outputs"][1]["name"], "score");
    assert_eq!(json["outputs"].as_array().unwrap().len(), 2);
}

#[test]
fn data_may_be_nested_and_other_parameters_have_no_effect() {
    let rows = rows(2, 1.0);
    let nested: Vec<Vec<f64>> =
        rows.outer_iter().map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect();
    let mut body = request(&rows);
    let flat = SERVER.infer("net", &body).doubles(0);
    body["inputs"][0]["data"] = json!(nested);
    body["parameters"] = json!({ "sequence_id": 0, "priority": 1, "anything": "else" });
    assert_eq!(SERVER.infer("net", &body).doubles(0), flat);
}

#[test]
fn no_rows_have_no_scores() {
    let json = SERVER.infer("net", &request(&Array2::zeros((0, WIDTH)))).json();
    assert_eq!(json["outputs"][0]["data"], json!([]));
    assert_eq!(json["outputs"][0]["shape"], json!([0]));
}

// --- binary tensors -------------------------------------------------------------------------------------------------

#[test]
fn bytes_in_and_bytes_out_for_all_outputs() {
    let rows = rows(7, 0.9);
    let expected = SERVER.infer("net", &request(&rows));
    let (length, body) = binary_request(&rows, r#","parameters":{"binary_data_output":true}"#);
    // Without a Content-Type and without outputs, as the clients of Triton do by default.
    let answer = SERVER.post("/v2/models/net/infer", &[(HEADER, &length)], &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/octet-stream");
    let header: usize = answer.headers[&HEADER.to_lowercase()].parse().unwrap();
    let json: Value = serde_json::from_slice(&answer.body[..header]).unwrap();
    let sizes: Vec<u64> = json["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| output["parameters"]["binary_data_size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [56, 56, 7]);
    assert!(json["outputs"][0].get("data").is_none());
    let bytes = &answer.body[header..];
    assert_eq!(bytes.len(), 119);
    assert_eq!(doubles(&bytes[..56]), expected.doubles(0));
    assert_eq!(doubles(&bytes[56..112]), expected.doubles(1));
    let out: Vec<Value> = bytes[112..].iter().map(|&b| json!(b == 1)).collect();
    assert_eq!(json!(out), expected.json()["outputs"][2]["data"]);
}

#[test]
fn what_an_output_says_goes_before_what_the_request_says() {
    let outputs = r#","parameters":{"binary_data_output":true},"outputs":[{"name":"p_value","parameters":{"binary_data":false}},{"name":"score"}]"#;
    let (length, body) = binary_request(&rows(2, 1.0), outputs);
    let answer = SERVER.post("/v2/models/net/infer", &[(HEADER, &length)], &body);
    let header: usize = answer.headers[&HEADER.to_lowercase()].parse().unwrap();
    let json: Value = serde_json::from_slice(&answer.body[..header]).unwrap();
    assert_eq!(json["outputs"][0]["data"].as_array().unwrap().len(), 2);
    assert_eq!(answer.body.len() - header, 16);
    // Bytes in and nothing said: JSON out.
    let (length, body) = binary_request(&rows(2, 1.0), "");
    let answer = SERVER.post("/v2/models/net/infer", &[(HEADER, &length)], &body);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(!answer.headers.contains_key(&HEADER.to_lowercase()));
    assert_eq!(answer.doubles(0).len(), 2);
}

#[test]
fn a_raw_body_is_rows_and_nothing_else() {
    let rows = rows(3, 1.0);
    let bytes: Vec<u8> = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
    let answer = SERVER.post("/v2/models/net/infer", &[(HEADER, "0")], &bytes);
    let header: usize = answer.headers[&HEADER.to_lowercase()].parse().unwrap();
    assert_eq!(
        doubles(&answer.body[header..header + 24]),
        SERVER.infer("net", &request(&rows)).doubles(0)
    );
    let answer = SERVER.post("/v2/models/net/infer", &[(HEADER, "0")], &bytes[..30]);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.error(), "expected a raw body of whole rows of 32 bytes, got 30 bytes");
}

#[test]
fn every_type_of_numbers_is_read() {
    let rows = rows(4, 1.0).mapv(|x| (x * 8.0).round() / 8.0);
    let expected = SERVER.infer("net", &request(&rows)).doubles(0);
    // Eighths are the same number in every type.
    let bytes = |datatype: &str| -> Vec<u8> {
        let each = |x: &f32| match datatype {
            "FP16" => half::f16::from_f32(*x).to_le_bytes().to_vec(),
            "BF16" => half::bf16::from_f32(*x).to_le_bytes().to_vec(),
            "FP32" => x.to_le_bytes().to_vec(),
            _ => f64::from(*x).to_le_bytes().to_vec(),
        };
        rows.iter().flat_map(each).collect()
    };
    for datatype in ["FP16", "BF16", "FP32", "FP64"] {
        let bytes = bytes(datatype);
        let json = format!(
            r#"{{"inputs":[{{"name":"features","shape":[4,{WIDTH}],"datatype":"{datatype}","parameters":{{"binary_data_size":{}}}}}]}}"#,
            bytes.len()
        );
        let length = json.len().to_string();
        let answer = SERVER.post(
            "/v2/models/net/infer",
            &[(HEADER, &length)],
            &[json.as_bytes(), &bytes].concat(),
        );
        assert_eq!(answer.status, 200, "{datatype}: {answer:?}");
        assert_eq!(answer.doubles(0), expected, "{datatype}");
        let mut in_json = request(&rows);
        in_json["inputs"][0]["datatype"] = json!(datatype);
        assert_eq!(SERVER.infer("net", &in_json).doubles(0), expected, "{datatype} in JSON");
    }
}

#[test]
fn bodies_may_be_compressed_either_way() {
    use std::io::{Read, Write};
    let rows = rows(64, 1.0);
    let plain = SERVER.infer("net", &request(&rows));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(request(&rows).to_string().as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let headers = [("Content-Encoding", "gzip"), ("Accept-Encoding", "gzip")];
    let answer = SERVER.post("/v2/models/net/infer", &headers, &packed);
    assert_eq!(answer.headers["content-encoding"], "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain.text());
    // Binary tensors, too: lengths are those before packing.
    let (length, body) = binary_request(&rows, r#","parameters":{"binary_data_output":true}"#);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&body).unwrap();
    let headers = [("Content-Encoding", "deflate"), (HEADER, length.as_str())];
    let answer = SERVER.post("/v2/models/net/infer", &headers, &zlib.finish().unwrap());
    let header: usize = answer.headers[&HEADER.to_lowercase()].parse().unwrap();
    assert_eq!(doubles(&answer.body[header..header + 512]), plain.doubles(0));
}

// --- the model repository -------------------------------------------------------------------------------------------

#[test]
fn the_index_has_every_version_and_its_state() {
    let answer = SERVER.post("/v2/repository/index", &[], b"");
    let expected = json!([
        { "name": "net", "version": "1", "state": "READY", "reason": "" },
        { "name": "net", "version": "3", "state": "READY", "reason": "" },
        { "name": "plain", "version": "1", "state": "READY", "reason": "" },
    ]);
    assert_eq!(answer.json(), expected);
    assert_eq!(SERVER.post("/v2/repository/index", &[], br#"{"ready":true}"#).json(), expected);
    assert_eq!(SERVER.post("/v2/repository/index", &[], b"[").status, 400);
}

#[test]
fn a_model_is_unloaded_and_loaded_on_request() {
    let server = Running::start();
    let load =
        |what: &str| server.post(&format!("/v2/repository/models/net/{what}"), &[], b"").status;
    assert_eq!(load("unload"), 200);
    assert_eq!(server.get("/v2/models/net/ready").status, 400);
    let answer = server.infer("net", &request(&rows(1, 1.0)));
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (503, "1"));
    let index = server.post("/v2/repository/index", &[], b"").json();
    assert_eq!(index[0]["state"], "UNAVAILABLE");
    assert_eq!(server.post("/v2/repository/index", &[], br#"{"ready":true}"#).json(), json!([]));
    assert_eq!(load("load"), 200);
    assert_eq!(server.infer("net", &request(&rows(1, 1.0))).status, 200);
    let answer = server.post("/v2/repository/models/none/load", &[], b"");
    assert_eq!((answer.status, answer.error()), (404, "there is no model `none`".to_owned()));
}

#[test]
fn a_detector_file_is_the_model_of_its_own_name() {
    let server = Running::with(|config: &mut Config, models| {
        config.models = vec![models.join("../lonely.offspan")];
        detector().save(&config.models[0]).unwrap();
    });
    assert_eq!(server.get("/v2/models/lonely").json()["versions"], json!(["1"]));
    assert_eq!(server.infer("lonely", &request(&rows(2, 1.0))).status, 200);
}

// --- errors ---------------------------------------------------------------------------------------------------------

#[test]
fn errors_are_documents_with_the_right_code() {
    let cases = [
        (SERVER.get("/v3"), 404),
        (SERVER.get("/v2/models/net/infer"), 405),
        (SERVER.post("/v2/health/live", &[], b""), 405),
        (SERVER.post("/v2/models/none/infer", &[], b"{}"), 404),
        (SERVER.post("/v2/models/net/infer", &[], b"{}"), 400),
        (SERVER.post("/v2/models/net/infer", &[("Content-Encoding", "br")], b"{}"), 415),
    ];
    for (answer, status) in cases {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.headers["content-type"], "application/json");
        assert!(!answer.error().is_empty());
        assert!(answer.headers.contains_key("x-request-id"));
    }
}
