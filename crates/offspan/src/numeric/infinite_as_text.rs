//! JSON has no infinities: they are stored as the texts `-inf` and `inf`.

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
    match *value {
        f64::NEG_INFINITY => out.serialize_str("-inf"),
        f64::INFINITY => out.serialize_str("inf"),
        finite => out.serialize_f64(finite),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Number(f64),
        Text(String),
    }
    match Value::deserialize(input)? {
        Value::Number(value) => Ok(value),
        Value::Text(text) if text == "-inf" => Ok(f64::NEG_INFINITY),
        Value::Text(text) if text == "inf" => Ok(f64::INFINITY),
        Value::Text(text) => {
            Err(serde::de::Error::custom(format!("expected a number, -inf or inf, got {text}")))
        }
    }
}
