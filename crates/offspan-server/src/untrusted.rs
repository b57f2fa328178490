//! Requests as they arrive, read and checked without a server around them: for fuzzing.

use bytes::Bytes;

use crate::grpc::{self, messages::ModelInferRequest};
use crate::protocol::pieces::Pieces;
use crate::protocol::request::InferRequest;
use crate::protocol::signature::{Input, Role, Signature};
use crate::refusal::Refusal;
use crate::rest::{encoding, json};

/// Bodies are unpacked to no more than this.
const LONGEST: usize = 1 << 20;

/// The numbers of a body that came over REST, for a model of rows of `width` numbers. The first `json` bytes are JSON: all
/// where nothing is said, none in a raw body.
///
/// # Errors
/// With the sentence that the client would get.
pub fn rest_body(body: &[u8], json: Option<usize>, width: usize) -> Result<Vec<f32>, String> {
    // As a socket hands it over: in pieces.
    let mut pieces = Pieces::default();
    for piece in body.chunks(body.len().div_ceil(3).max(1)) {
        pieces.push(Bytes::copy_from_slice(piece));
    }
    let signature = signature(width);
    numbers(
        &signature,
        match json {
            Some(0) => InferRequest::raw(&signature, pieces),
            length => json::read(&pieces, length.unwrap_or(body.len())),
        },
    )
}

/// A compressed body.
///
/// # Errors
/// With the sentence that the client would get.
pub fn compressed_body(encoding: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    encoding::decode(encoding, body, LONGEST).map_err(|refusal| refusal.reason)
}

/// The numbers of a message that came over gRPC, for a model of rows of `width` numbers.
///
/// # Errors
/// With the sentence that the client would get.
pub fn grpc_message(message: &[u8], width: usize) -> Result<Vec<f32>, String> {
    let request = grpc::codec::read::<ModelInferRequest>(Bytes::copy_from_slice(message));
    numbers(&signature(width), request.and_then(grpc::read))
}

fn signature(width: usize) -> Signature {
    let row = Some(vec![Some(width)]);
    let features = Input { name: "features".to_owned(), role: Role::Features, row };
    Signature::new(vec![features], true)
}

fn numbers(
    signature: &Signature,
    request: Result<InferRequest, Refusal>,
) -> Result<Vec<f32>, String> {
    let checked = request.and_then(|request| request.check(signature));
    let (inputs, _) = checked.map_err(|refusal| refusal.reason)?;
    Ok(inputs.tensors.iter().flat_map(|(_, tensor)| tensor.singles(0, inputs.rows)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rows_come_out_of_every_form_of_a_request() {
        let rows = [1.0f32, -2.5, 0.25, 8.0];
        let raw: Vec<u8> = rows.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(rest_body(&raw, Some(0), 2).unwrap(), rows);
        let input = r#"{"inputs":[{"name":"features","datatype":"FP32","shape":[2,2]"#;
        let text = format!("{input},\"data\":[[1,-2.5],[0.25,8]]}}]}}");
        assert_eq!(rest_body(text.as_bytes(), None, 2).unwrap(), rows);
        let mut half =
            format!("{input},\"parameters\":{{\"binary_data_size\":16}}}}]}}").into_bytes();
        let json = half.len();
        half.extend(&raw);
        assert_eq!(rest_body(&half, Some(json), 2).unwrap(), rows);
        assert_eq!(compressed_body("gzip", &encoding::gzip(&half)).unwrap(), half);
        assert!(rest_body(&half, Some(json), 3).unwrap_err().contains("shape"));
    }
}
