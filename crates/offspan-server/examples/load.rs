//! Load for a server, bounded in count and in time, over loopback only: `load 127.0.0.1:8000 PATH HEADERS BODY-FILE CONNECTIONS
//! SECONDS [RATE [COUNT]]`.
//!
//! Without a rate every connection asks again as soon as it has its answer. With one, requests are due at times that do not depend on
//! answers. A request's time counts from when it began, and how much later than due that was is told apart: a driver that sleeps too
//! long is no slow server, and a server that stalls cannot hide it, because requests that are due meanwhile begin late.
//! Prints one JSON document.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Beyond this it would be no measurement any more.
const MOST_SECONDS: f64 = 900.0;
const MOST_CONNECTIONS: usize = 256;

struct Load {
    address: SocketAddr,
    request: Vec<u8>,
    connections: usize,
    time: Duration,
    /// Requests per second of all connections.
    rate: Option<f64>,
    count: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match parse(&words).and_then(|load| run(&load)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("load: {reason}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Result<Load, String> {
    let word = |k: usize| words.get(k).map(String::as_str).ok_or("expected at least 6 words");
    let number =
        |k: usize| word(k)?.parse::<f64>().map_err(|_| "expected a number").map_err(str::to_owned);
    let address: SocketAddr = word(0)?.parse().map_err(|_| "expected an address")?;
    if !address.ip().is_loopback() {
        return Err("only loopback is loaded".to_owned());
    }
    let body = std::fs::read(word(3)?).map_err(|error| error.to_string())?;
    let headers: String =
        word(2)?.split(';').filter(|h| !h.is_empty()).map(|h| format!("{h}\r\n")).collect();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n{headers}\r\n",
        word(1)?,
        body.len()
    );
    let (connections, seconds) = (number(4)? as usize, number(5)?);
    if !(1..=MOST_CONNECTIONS).contains(&connections) || !(0.0..=MOST_SECONDS).contains(&seconds) {
        return Err(format!("expected up to {MOST_CONNECTIONS} connections and {MOST_SECONDS} s"));
    }
    let rate = if words.len() > 6 { Some(number(6)?).filter(|rate| *rate > 0.0) } else { None };
    let count = if words.len() > 7 { number(7)? as u64 } else { u64::MAX };
    let request = [head.as_bytes(), &body].concat();
    Ok(Load { address, request, connections, time: Duration::from_secs_f64(seconds), rate, count })
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    /// From the beginning of a request to its answer.
    micros: Vec<u32>,
    /// From when a request was due to when it began.
    late: Vec<u32>,
    refused: u64,
    failed: u64,
}

fn run(load: &Load) -> Result<String, String> {
    let begin = Instant::now();
    let next = AtomicU64::new(0);
    let all: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..load.connections).map(|_| scope.spawn(|| connection(load, begin, &next))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let sorted = |of: fn(&Seen) -> &[u32]| {
        let mut times: Vec<u32> = all.iter().flat_map(of).copied().collect();
        times.sort_unstable();
        times
    };
    let (micros, late) = (sorted(|seen| &seen.micros), sorted(|seen| &seen.late));
    let of = |times: &[u32], share: f64| {
        let place = times.len().saturating_sub(1) as f64 * share;
        times.get(place as usize).copied().unwrap_or(0)
    };
    let at = |share: f64| of(&micros, share);
    let sum = |of: fn(&Seen) -> u64| all.iter().map(of).sum::<u64>();
    Ok(serde_json::json!({
        "requests": micros.len(),
        "seconds": seconds,
        "per_second": micros.len() as f64 / seconds,
        "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": at(1.0),
        "late_p50_us": of(&late, 0.5), "late_p99_us": of(&late, 0.99),
        "refused": sum(|seen| seen.refused),
        "failed": sum(|seen| seen.failed),
    })
    .to_string())
}

fn connection(load: &Load, begin: Instant, next: &AtomicU64) -> Seen {
    let mut seen = Seen::default();
    let mut reader: Option<BufReader<TcpStream>> = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let due = load.rate.map_or_else(Instant::now, |rate| {
            begin + Duration::from_secs_f64(number as f64 / rate)
        });
        if number >= load.count || due.duration_since(begin) >= load.time {
            return seen;
        }
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        let begun = Instant::now();
        match one(load, &mut reader) {
            Some(200) => {
                seen.micros.push(micros(begun.elapsed()));
                seen.late.push(micros(begun - due));
            }
            Some(_) => seen.refused += 1,
            None => {
                seen.failed += 1;
                reader = None;
            }
        }
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Sends a request and reads its answer; the code, or none if the connection failed.
fn one(load: &Load, reader: &mut Option<BufReader<TcpStream>>) -> Option<u16> {
    if reader.is_none() {
        let stream = TcpStream::connect(load.address).ok()?;
        stream.set_nodelay(true).ok()?;
        *reader = Some(BufReader::new(stream));
    }
    let reader = reader.as_mut()?;
    reader.get_mut().write_all(&load.request).ok()?;
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let status = line.split_whitespace().nth(1)?.parse().ok()?;
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
        if line == "\r\n" {
            break;
        }
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(status)
}
