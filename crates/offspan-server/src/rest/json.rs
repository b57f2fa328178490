//! Requests and answers of REST: JSON, with tensors in it or as bytes behind it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use crate::protocol::answer::{Answer, Verdicts};
use crate::protocol::pieces::Pieces;
use crate::protocol::request::InferRequest;
use crate::protocol::signature::{Output, shown};
use crate::protocol::tensor::Tensor;
use crate::refusal::Refusal;

/// What the protocol calls parameters; of those that we do not know, nothing follows.
#[derive(Deserialize, Default)]
struct Parameters {
    binary_data_size: Option<usize>,
    binary_data: Option<bool>,
    binary_data_output: Option<bool>,
    shared_memory_region: Option<serde::de::IgnoredAny>,
    classification: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct InputBody {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    #[serde(default)]
    parameters: Parameters,
    data: Option<Flat>,
}

#[derive(Deserialize)]
struct OutputBody {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Deserialize)]
struct InferBody {
    id: Option<String>,
    #[serde(default)]
    parameters: Parameters,
    inputs: Vec<InputBody>,
    #[serde(default)]
    outputs: Vec<OutputBody>,
}

/// Numbers, in lists within lists or in one.
struct Flat(Vec<f64>);

impl<'de> Deserialize<'de> for Flat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut nested = Nested::default();
        deserializer.deserialize_seq(Numbers { nested: &mut nested, depth: 0 })?;
        match nested.numbers_at {
            Some(depth) if depth != nested.sizes.len() => {
                Err(D::Error::custom("expected numbers or lists in a list, got both"))
            }
            _ => Ok(Flat(nested.numbers)),
        }
    }
}

/// What was found in lists so far.
#[derive(Default)]
struct Nested {
    numbers: Vec<f64>,
    /// Entries of the lists at each depth: as many in one as in another, or it would be no tensor.
    sizes: Vec<Option<usize>>,
    /// How many lists are around a number.
    numbers_at: Option<usize>,
}

/// Puts what it visits behind the numbers that are there.
struct Numbers<'n> {
    nested: &'n mut Nested,
    /// How many lists are around it.
    depth: usize,
}

impl Numbers<'_> {
    fn take<E: Error>(self, number: f64) -> Result<(), E> {
        if *self.nested.numbers_at.get_or_insert(self.depth) != self.depth {
            return Err(E::custom("expected numbers or lists in a list, got both"));
        }
        self.nested.numbers.push(number);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers, or lists of numbers")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.take(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.take(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.take(number as f64)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Numbers { nested, depth } = self;
        if nested.sizes.len() == depth {
            nested.sizes.push(None);
        }
        let mut count = 0;
        while list.next_element_seed(Numbers { nested: &mut *nested, depth: depth + 1 })?.is_some()
        {
            count += 1;
        }
        let expected = *nested.sizes[depth].get_or_insert(count);
        if count != expected {
            return Err(A::Error::custom(format!(
                "expected lists of as many entries as the first one, {expected}, got {count}"
            )));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// About what a text takes when it is read: itself in one piece; its numbers, each with a comma before it or a bracket, for a
/// while twice; and its objects.
pub(crate) fn room_for_text(body: &Pieces, header: usize) -> usize {
    const OBJECT: usize = 256;
    let text = body.slice(0..header.min(body.len()));
    text.len() + 2 * size_of::<f64>() * text.count(b',') + OBJECT * text.count(b'{')
}

/// Reads a request whose first `header` bytes are JSON, and the rest tensors.
pub(crate) fn read(body: &Pieces, header: usize) -> Result<InferRequest, Refusal> {
    if header > body.len() {
        return Err(Refusal::bad(format!(
            "Inference-Header-Content-Length: expected at most the {} bytes of the body, got {header}",
            body.len()
        )));
    }
    let text = body.slice(0..header).joined();
    let parsed: InferBody = serde_json::from_slice(&text)
        .map_err(|error| Refusal::bad(format!("expected an inference request in JSON: {error}")))?;
    let mut at = header;
    let mut inputs = Vec::new();
    for input in parsed.inputs {
        let InputBody { name, datatype, shape, parameters, data } = input;
        let wrong = |reason: &str| Refusal::bad(format!("input `{}`: {reason}", shown(&name)));
        if parameters.shared_memory_region.is_some() {
            return Err(wrong("shared memory is not supported; send the numbers"));
        }
        let tensor = Tensor::received(&name, &datatype, &shape, |element, count| {
            match (data, parameters.binary_data_size) {
                (Some(_), Some(_)) => Err(wrong("expected data or binary_data_size, got both")),
                (None, None) => Err(wrong("expected data or binary_data_size, got neither")),
                (Some(Flat(numbers)), None) if numbers.len() != count => Err(wrong(&format!(
                    "expected {count} numbers for shape {shape:?}, got {}",
                    numbers.len()
                ))),
                (Some(Flat(numbers)), None) => Ok(element.encode(&numbers).into()),
                (None, Some(size)) => {
                    let end = at.checked_add(size).filter(|&end| end <= body.len());
                    let end = end.ok_or_else(|| {
                        wrong(&format!(
                            "expected {size} bytes behind the JSON, as binary_data_size says, got {}",
                            body.len() - at
                        ))
                    })?;
                    let part = body.slice(at..end);
                    at = end;
                    Ok(part)
                }
            }
        })?;
        inputs.push((name, tensor));
    }
    if at != body.len() {
        return Err(Refusal::bad(format!(
            "expected {} bytes behind the JSON, as the inputs say, got {}",
            at - header,
            body.len() - header
        )));
    }
    let mut outputs = Vec::new();
    for output in parsed.outputs {
        let OutputBody { name, parameters } = output;
        if parameters.shared_memory_region.is_some() || parameters.classification.is_some() {
            return Err(Refusal::bad(format!(
                "output `{}`: shared memory and classification are not supported",
                shown(&name)
            )));
        }
        outputs.push((name, parameters.binary_data));
    }
    Ok(InferRequest {
        id: parsed.id,
        inputs,
        outputs,
        binary: parsed.parameters.binary_data_output.unwrap_or(false),
    })
}

#[derive(Serialize)]
struct AnswerBody<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    outputs: Vec<OutputAnswer<'a>>,
}

#[derive(Serialize)]
struct OutputAnswer<'a> {
    name: &'static str,
    datatype: &'static str,
    shape: [usize; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

struct Data<'a>(&'a Verdicts, Output);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Data(verdicts, output) = self;
        match output {
            Output::Score => numbers(&verdicts.scores, serializer),
            Output::PValue => numbers(&verdicts.p_values, serializer),
            Output::IsOod => verdicts.is_out.serialize(serializer),
        }
    }
}

/// JSON has no infinity: a row without direction, which scores −∞, is "-inf", as in detector files.
fn numbers<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(numbers.len()))?;
    for number in numbers {
        if number.is_finite() {
            list.serialize_element(number)?;
        } else {
            list.serialize_element(&number.to_string())?;
        }
    }
    list.end()
}

/// A number in a document, with the same text for an infinite one.
pub(crate) fn number(number: f64) -> serde_json::Value {
    if number.is_finite() { number.into() } else { number.to_string().into() }
}

/// The body of an answer, and how long its JSON is where bytes follow.
pub(crate) fn write(answer: &Answer) -> (Vec<u8>, Option<usize>) {
    let verdicts = &answer.verdicts;
    let outputs = answer.wanted.iter().map(|wanted| OutputAnswer {
        name: wanted.output.name(),
        datatype: wanted.output.datatype(),
        shape: [verdicts.rows()],
        parameters: wanted
            .binary
            .then(|| BinarySize { binary_data_size: verdicts.rows() * wanted.output.size() }),
        data: (!wanted.binary).then_some(Data(verdicts, wanted.output)),
    });
    let body = AnswerBody {
        model_name: &answer.model,
        model_version: &answer.version,
        id: answer.id.as_deref(),
        outputs: outputs.collect(),
    };
    let mut bytes = serde_json::to_vec(&body)
        .unwrap_or_else(|_| unreachable!("strings and numbers always become JSON"));
    let header = bytes.len();
    let binary = answer.wanted.iter().filter(|wanted| wanted.binary);
    binary.for_each(|wanted| bytes.extend(verdicts.bytes(wanted.output)));
    let has_bytes = answer.wanted.iter().any(|wanted| wanted.binary);
    (bytes, has_bytes.then_some(header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request::Wanted;

    fn message(text: &str) -> String {
        let body = Pieces::from(text.as_bytes().to_vec());
        read(&body, body.len()).unwrap_err().reason
    }

    #[test]
    fn lists_within_lists_and_one_list_are_the_same_tensor() {
        for data in ["[1, 2.5, -3, 4e2]", "[[1, 2.5], [-3, 4e2]]"] {
            let text = format!(
                r#"{{"inputs":[{{"name":"x","shape":[2,2],"datatype":"FP32","data":{data}}}]}}"#
            );
            let body = Pieces::from(text.into_bytes());
            let request = read(&body, body.len()).unwrap();
            assert_eq!(request.inputs[0].1.singles(0, 2), [1.0, 2.5, -3.0, 400.0]);
        }
    }

    #[test]
    fn a_text_takes_more_than_its_numbers() {
        let room = |text: &str, header| room_for_text(&text.as_bytes().to_vec().into(), header);
        assert_eq!(room("[1,2,3]xxxx,,,", 7), 7 + 32);
        // Outputs that would be read before they are refused.
        let outputs = r#"{"name":""},"#.repeat(1000);
        assert!(room(&outputs, outputs.len()) >= 1000 * size_of::<OutputBody>());
        assert!(room("{}", 99) >= size_of::<InputBody>());
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_expected_and_got() {
        let input = |rest: &str| format!(r#"{{"inputs":[{{"name":"x",{rest}}}]}}"#);
        let cases = [
            (input(r#""shape":[2,2],"datatype":"FP32","data":[1,2,3]"#), "expected 4 numbers"),
            (input(r#""shape":[2,2],"datatype":"FP32""#), "got neither"),
            (input(r#""shape":[1],"datatype":"INT8","data":[1]"#), "expected datatype"),
            (input(r#""shape":[-1],"datatype":"FP32","data":[1]"#), "at least 0"),
            (
                input(r#""shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}"#),
                "expected 4 bytes behind the JSON",
            ),
            (
                input(r#""shape":[9223372036854775807,9,9],"datatype":"FP32","data":[]"#),
                "more numbers than there can be",
            ),
            (
                input(r#""shape":[2,4],"datatype":"FP32","data":[[1,2,3],[4,5,6,7,8]]"#),
                "as many entries as the first one, 3, got 5",
            ),
            (input(r#""shape":[3],"datatype":"FP32","data":[1,[2,3]]"#), "got both"),
            (input(r#""shape":[1],"datatype":"FP32","data":[[],1]"#), "got both"),
            (
                input(r#""shape":[4],"datatype":"FP32","data":[[[1],[2]],[[3,4]]]"#),
                "as many entries",
            ),
            ("{}".to_owned(), "missing field `inputs`"),
        ];
        for (text, part) in cases {
            let message = message(&text);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_answer_may_be_half_json_and_half_bytes() {
        let verdicts = Verdicts {
            scores: vec![-0.5, f64::NEG_INFINITY],
            p_values: vec![0.25, 0.5],
            is_out: vec![false, true],
        };
        let wanted = vec![
            Wanted { output: Output::Score, binary: false },
            Wanted { output: Output::IsOod, binary: true },
        ];
        let answer = Answer {
            model: "net".into(),
            version: "1".into(),
            id: Some("7".into()),
            verdicts,
            wanted,
        };
        let (bytes, header) = write(&answer);
        let json: serde_json::Value = serde_json::from_slice(&bytes[..header.unwrap()]).unwrap();
        assert_eq!(json["outputs"][0]["data"], serde_json::json!([-0.5, "-inf"]));
        assert_eq!(json["outputs"][1]["parameters"]["binary_data_size"], 2);
        assert_eq!(json["id"], "7");
        assert_eq!(number(f64::NEG_INFINITY), "-inf");
        assert_eq!(number(-0.5), -0.5);
        assert_eq!(bytes[header.unwrap()..], [0, 1]);
    }
}
