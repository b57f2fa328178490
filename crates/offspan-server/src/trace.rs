//! Who asked: ids of requests, and the trace that a request belongs to (W3C Trace Context).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// Longer ids are not taken over.
const LONGEST_ID: usize = 128;

/// Differs from process to process.
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let seed = format!("{:?} {}", std::time::SystemTime::now(), std::process::id());
        xxh3_64(seed.as_bytes())
    })
}

fn next_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// What a request is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The client's own id, or a new one.
    pub(crate) request_id: String,
    pub(crate) parent: Option<Parent>,
    state: Option<HeaderValue>,
}

/// A trace that goes through us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    /// 32 hex digits.
    pub(crate) trace_id: String,
    /// 16 hex digits: the span of whoever asked.
    pub(crate) span_id: String,
    flags: String,
    /// 16 hex digits: our own span.
    own_span: String,
}

impl Trace {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let number = next_number();
        let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let usable = |id: &&str| (1..=LONGEST_ID).contains(&id.len());
        let request_id = given
            .filter(usable)
            .map_or_else(|| format!("{:08x}-{number:x}", boot() as u32), str::to_owned);
        let parent = headers.get(TRACE_PARENT).and_then(|value| value.to_str().ok());
        let parent = parent.and_then(|text| Parent::of(text, number));
        let state = headers.get(TRACE_STATE).filter(|_| parent.is_some()).cloned();
        Trace { request_id, parent, state }
    }

    /// Puts ids into an answer.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Some(parent) = &self.parent
            && let Ok(value) = HeaderValue::from_str(&parent.passed_on())
        {
            headers.insert(TRACE_PARENT, value);
            if let Some(state) = &self.state {
                headers.insert(TRACE_STATE, state.clone());
            }
        }
    }
}

impl Parent {
    fn of(text: &str, number: u64) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits
                && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let is_zero = |text: &str| text.bytes().all(|b| b == b'0');
        let fine = is_hex(version, 2)
            && version != "ff"
            // Later versions may have more parts, this one has not.
            && (version != "00" || parts.next().is_none())
            && is_hex(trace_id, 32)
            && !is_zero(trace_id)
            && is_hex(span_id, 16)
            && !is_zero(span_id)
            && is_hex(flags, 2);
        fine.then(|| Parent {
            trace_id: trace_id.to_owned(),
            span_id: span_id.to_owned(),
            flags: flags.to_owned(),
            own_span: format!("{:016x}", xxh3_64(&(boot() ^ number).to_le_bytes()) | 1),
        })
    }

    fn passed_on(&self) -> String {
        format!("00-{}-{}-{}", self.trace_id, self.own_span, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_parents_are_passed_on_and_others_are_not() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACE_PARENT, text.parse().unwrap());
            headers.insert(TRACE_STATE, "a=b".parse().unwrap());
            let mut answer = HeaderMap::new();
            Trace::of(&headers).tell(&mut answer);
            answer
        };
        let answer = of(&format!("00-{trace}-00f067aa0ba902b7-01"));
        let parent = answer[TRACE_PARENT].to_str().unwrap();
        assert!(parent.starts_with(&format!("00-{trace}-")) && parent.ends_with("-01"), "{parent}");
        assert!(!parent.contains("00f067aa0ba902b7"));
        assert_eq!(answer[TRACE_STATE], "a=b");
        for wrong in [
            format!("00-{trace}-0000000000000000-01"),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{trace}-00f067aa0ba902b7-01-more"),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            "nonsense".to_owned(),
        ] {
            assert!(!of(&wrong).contains_key(TRACE_PARENT), "{wrong}");
        }
    }

    #[test]
    fn every_request_has_an_id_of_its_own_unless_it_brings_one() {
        let none = HeaderMap::new();
        assert_ne!(Trace::of(&none).request_id, Trace::of(&none).request_id);
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, "mine".parse().unwrap());
        assert_eq!(Trace::of(&headers).request_id, "mine");
        headers.insert(REQUEST_ID, "x".repeat(999).parse().unwrap());
        assert_ne!(Trace::of(&headers).request_id.len(), 999);
    }
}
