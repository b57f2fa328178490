//! Messages, weighed before they are read: an empty entry of a list is two bytes on the wire, and hundreds in memory.

use std::marker::PhantomData;

use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use super::messages::{
    ModelInferRequest, ModelMetadataRequest, ModelReadyRequest, RepositoryIndexRequest,
    RepositoryModelLoadRequest, RepositoryModelUnloadRequest, ServerLiveRequest,
    ServerMetadataRequest, ServerReadyRequest,
};
use crate::refusal::Refusal;

/// Entries of all lists of a message but numbers in single or double precision, which weigh in memory what they weigh on the
/// wire. No model has nearly as many inputs, sizes and outputs.
const MOST_PARTS: usize = 1024;

/// Which message it is, as far as its weight goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Infer,
    Input,
    Output,
    Contents,
    /// Names and maps; every field counts.
    Other,
}

/// A request as it comes over gRPC.
pub(crate) trait Asked: Message + Default + 'static {
    const KIND: Kind = Kind::Other;
}

impl Asked for ModelInferRequest {
    const KIND: Kind = Kind::Infer;
}

impl Asked for ServerLiveRequest {}
impl Asked for ServerReadyRequest {}
impl Asked for ServerMetadataRequest {}
impl Asked for ModelReadyRequest {}
impl Asked for ModelMetadataRequest {}
impl Asked for RepositoryIndexRequest {}
impl Asked for RepositoryModelLoadRequest {}
impl Asked for RepositoryModelUnloadRequest {}

/// Reads a message that is not heavier than it looks.
pub(crate) fn read<T: Asked>(bytes: Bytes) -> Result<T, Refusal> {
    let wrong = |error: prost::DecodeError| {
        Refusal::bad(format!("expected a message of the protocol: {error}"))
    };
    let mut parts = 0;
    count(bytes.clone(), T::KIND, &mut parts).map_err(wrong)?;
    if parts > MOST_PARTS {
        return Err(Refusal::bad(format!(
            "expected a message of at most {MOST_PARTS} entries beside its fp32_contents, fp64_contents and raw contents, \
             got {parts}"
        )));
    }
    T::decode(bytes).map_err(wrong)
}

/// Counts the entries of a message's lists.
fn count(mut bytes: Bytes, kind: Kind, parts: &mut usize) -> Result<(), prost::DecodeError> {
    while bytes.has_remaining() {
        let (tag, wire) = decode_key(&mut bytes)?;
        if wire != WireType::LengthDelimited {
            *parts += usize::from(!matches!((kind, tag), (Kind::Contents, 6 | 7)));
            skip_field(wire, tag, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(&mut bytes)?;
        let length = usize::try_from(length).ok().filter(|&length| length <= bytes.remaining());
        let Some(length) = length else {
            // The decoder has the words for it.
            return Ok(());
        };
        let field = bytes.split_to(length);
        match (kind, tag) {
            (Kind::Infer, 5) => {
                *parts += 1;
                count(field, Kind::Input, parts)?;
            }
            (Kind::Infer, 6) => {
                *parts += 1;
                count(field, Kind::Output, parts)?;
            }
            (Kind::Input, 5) => count(field, Kind::Contents, parts)?,
            // Numbers one after another, of a byte or more each.
            (Kind::Input, 3) | (Kind::Contents, 1..=5) => *parts += length,
            (Kind::Contents, 6 | 7) => {}
            _ => *parts += 1,
        }
    }
    Ok(())
}

/// How messages of the service are read and written.
pub(crate) struct Weighed<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Weighed<T, U> {
    fn default() -> Self {
        Weighed(PhantomData)
    }
}

impl<T: Message + 'static, U: Asked> Codec for Weighed<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Reader(PhantomData)
    }
}

pub(crate) struct Reader<U>(PhantomData<U>);

impl<U: Asked> Decoder for Reader<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The bytes stay where they are, and raw contents are parts of them.
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(read(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::model_infer_request::InferInputTensor;
    use super::super::messages::{InferTensorContents, ModelInferRequest};
    use super::*;

    fn refused(bytes: Vec<u8>) -> String {
        read::<ModelInferRequest>(bytes.into()).unwrap_err().reason
    }

    #[test]
    fn messages_that_would_grow_are_refused_before_they_are_read() {
        // Empty inputs, outputs, raw contents and parameters, of two bytes each.
        for key in [0x2a, 0x32, 0x3a, 0x22] {
            let many = [key, 0].repeat(MOST_PARTS + 1);
            assert!(refused(many).contains("got 1025"), "{key}");
        }
        let within = |input: InferInputTensor| {
            ModelInferRequest { inputs: vec![input], ..Default::default() }.encode_to_vec()
        };
        let contents =
            |contents| within(InferInputTensor { contents: Some(contents), ..Default::default() });
        let heavy = [
            within(InferInputTensor { shape: vec![1; 5000], ..Default::default() }),
            contents(InferTensorContents { int64_contents: vec![1; 5000], ..Default::default() }),
            contents(InferTensorContents { bool_contents: vec![true; 5000], ..Default::default() }),
            contents(InferTensorContents {
                bytes_contents: vec![Bytes::new(); 5000],
                ..Default::default()
            }),
        ];
        for bytes in heavy {
            let reason = refused(bytes);
            assert!(reason.contains("at most 1024 entries"), "{reason}");
        }
        let load = [0x1a, 0].repeat(MOST_PARTS + 1);
        assert!(read::<RepositoryModelLoadRequest>(load.into()).is_err());
    }

    #[test]
    fn numbers_are_no_parts_and_nonsense_is_refused_with_a_reason() {
        let numbers = InferTensorContents {
            fp32_contents: vec![1.0; 5000],
            fp64_contents: vec![1.0; 5000],
            ..Default::default()
        };
        let input = InferInputTensor {
            shape: vec![5000, 1],
            contents: Some(numbers),
            ..Default::default()
        };
        let request = ModelInferRequest {
            inputs: vec![input],
            raw_input_contents: vec![vec![0; 9000].into()],
            ..Default::default()
        };
        assert_eq!(read::<ModelInferRequest>(request.encode_to_vec().into()).unwrap(), request);
        // One after another with a key each, as old writers have it.
        let single = [&[0x35][..], &1f32.to_le_bytes()].concat().repeat(3000);
        let mut contents = Vec::new();
        prost::encoding::encode_key(5, WireType::LengthDelimited, &mut contents);
        prost::encoding::encode_varint(single.len() as u64, &mut contents);
        contents.extend(single);
        let mut message = Vec::new();
        prost::encoding::encode_key(5, WireType::LengthDelimited, &mut message);
        prost::encoding::encode_varint(contents.len() as u64, &mut message);
        message.extend(contents);
        let read_back: ModelInferRequest = read(message.into()).unwrap();
        assert_eq!(read_back.inputs[0].contents.as_ref().unwrap().fp32_contents.len(), 3000);
        for noise in [&b"\xff\xff\xff\xff"[..], b"\x0a\xff\xff\xff\xff\x0f", b"\x2a\x7f\x01"] {
            assert!(refused(noise.to_vec()).starts_with("expected a message"), "{noise:?}");
        }
    }
}
