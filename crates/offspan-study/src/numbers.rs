//! Numbers in JSON, which knows no infinities: a row without direction scores −∞, and such a score
//! becomes text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Text(String),
}

impl From<&f64> for Number {
    fn from(value: &f64) -> Self {
        if value.is_finite() { Number::Finite(*value) } else { Number::Text(value.to_string()) }
    }
}

impl TryFrom<Number> for f64 {
    type Error = String;

    fn try_from(number: Number) -> Result<f64, String> {
        match number {
            Number::Finite(value) => Ok(value),
            Number::Text(text) => {
                text.parse().map_err(|_| format!("expected a number, got `{text}`"))
            }
        }
    }
}

/// A single number.
pub(crate) mod one {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        Number::from(value).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        Number::deserialize(input)?.try_into().map_err(serde::de::Error::custom)
    }
}

/// A list of numbers.
pub(crate) mod many {
    use super::{Deserialize, Deserializer, Number, Serializer};

    pub(crate) fn serialize<S: Serializer>(values: &[f64], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(values.iter().map(Number::from))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<f64>, D::Error> {
        let numbers = Vec::<Number>::deserialize(input)?;
        let values: Result<Vec<f64>, String> = numbers.into_iter().map(f64::try_from).collect();
        values.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Both {
        #[serde(with = "one")]
        threshold: f64,
        #[serde(with = "many")]
        scores: Vec<f64>,
    }

    #[test]
    fn infinite_scores_survive_json() {
        let both = Both { threshold: f64::NEG_INFINITY, scores: vec![0.1, f64::INFINITY, -3.0] };
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(text, r#"{"threshold":"-inf","scores":[0.1,"inf",-3.0]}"#);
        assert_eq!(serde_json::from_str::<Both>(&text).unwrap(), both);
        assert!(serde_json::from_str::<Both>(r#"{"threshold":"low","scores":[]}"#).is_err());
    }
}
