//! Simulated streams: false alarms as seldom as promised, changes found soon.

use super::uniform::uniform;
use super::{Alarm, AlarmKind, Monitor, MonitorOptions};

/// Normal scores from a seed (Box–Muller on the counter-based numbers).
struct Normals {
    seed: u64,
    drawn: u64,
}

impl Normals {
    fn new(seed: u64) -> Self {
        // Away from the seeds of the monitors under test.
        Normals { seed: seed + 1_000_000, drawn: 0 }
    }

    fn uniform(&mut self) -> f64 {
        self.drawn += 1;
        uniform(self.seed, self.drawn)
    }

    fn next(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn take(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// The threshold of standard normal scores that keeps 95 %.
fn options(seed: u64) -> MonitorOptions {
    MonitorOptions { seed, ..MonitorOptions::new(0.95, -1.645) }
}

fn monitor(reference: &[f64], options: MonitorOptions) -> Monitor {
    Monitor::new(reference, options).unwrap()
}

/// How a stream changes: draws one row after the change.
type Change = fn(&mut Normals) -> f64;

/// Rows from the change to the alarm, the median of several streams; streams without an alarm
/// count as longest. Panics on an alarm before the change.
fn median_delay(kind: AlarmKind, quiet: usize, streams: u64, change: Change) -> usize {
    let mut delays: Vec<usize> = (0..streams)
        .map(|stream| {
            let mut normals = Normals::new(stream);
            let mut monitor = monitor(&normals.take(500), options(stream));
            monitor.update(&normals.take(quiet)).unwrap();
            assert!(monitor.alarms().is_empty());
            for _ in 0..2000 {
                monitor.update(&[change(&mut normals)]).unwrap();
                if let Some(row) = monitor.evidence(kind).alarm_row {
                    return row + 1 - quiet;
                }
            }
            usize::MAX
        })
        .collect();
    delays.sort_unstable();
    let median = delays[delays.len() / 2];
    println!("{kind:?} after {quiet} quiet rows: median {median}, all {delays:?}");
    median
}

#[test]
fn unchanged_streams_raise_alarms_as_seldom_as_promised() {
    // With ties: scores of one decimal place, −∞ among them.
    let rounded =
        |score: f64| if score < -2.0 { f64::NEG_INFINITY } else { (score * 10.0).round() };
    let streams = 500;
    let mut alarmed = [0, 0];
    for stream in 0..streams {
        let mut normals = Normals::new(stream);
        let (reference, rows) = (normals.take(500), normals.take(2000));
        let options = MonitorOptions { false_alarm: 0.1, ..options(stream) };
        let mut plain = monitor(&reference, options.clone());
        alarmed[0] += u32::from(plain.update(&rows).unwrap().alarmed());
        let tied = |scores: Vec<f64>| scores.into_iter().map(rounded).collect::<Vec<f64>>();
        let mut with_ties = monitor(&tied(reference), options);
        alarmed[1] += u32::from(with_ties.update(&tied(rows)).unwrap().alarmed());
    }
    let standard_error = (0.1_f64 * 0.9 / streams as f64).sqrt();
    let shares = alarmed.map(|count| f64::from(count) / streams as f64);
    println!("alarms in {shares:?} of the unchanged streams");
    assert!(shares.iter().all(|&share| share <= 0.1 + 3.0 * standard_error), "{shares:?}");
}

#[test]
fn ood_rows_are_found_by_their_share() {
    let ood_rows: Change =
        |normals| if normals.uniform() < 0.2 { normals.next() - 4.0 } else { normals.next() };
    assert!(median_delay(AlarmKind::Share, 0, 21, ood_rows) < 60);
    assert!(median_delay(AlarmKind::Share, 1000, 21, ood_rows) < 120);
    let all: Change = |normals| normals.next() - 4.0;
    assert!(median_delay(AlarmKind::Share, 1000, 21, all) < 15);
}

#[test]
fn a_change_after_20_000_quiet_rows_is_found_within_a_few_hundred() {
    let ood_rows: Change =
        |normals| if normals.uniform() < 0.2 { normals.next() - 4.0 } else { normals.next() };
    assert!(median_delay(AlarmKind::Share, 20_000, 7, ood_rows) < 200);
    assert!(median_delay(AlarmKind::Distribution, 20_000, 7, |normals| normals.next() + 0.5) < 300);
}

#[test]
fn moves_and_spreads_are_found_by_the_distribution() {
    let found_in = |change| median_delay(AlarmKind::Distribution, 1000, 21, change);
    assert!(found_in(|normals| normals.next() + 0.5) < 220);
    assert!(found_in(|normals| normals.next() - 0.5) < 220);
    assert!(found_in(|normals| normals.next() * 0.5) < 120);
    assert!(found_in(|normals| normals.next() * 2.0) < 100);
    // Stuck at one value.
    assert!(found_in(|_| 0.0) < 60);
}

#[test]
fn a_move_upwards_is_found_though_no_row_is_flagged() {
    let mut normals = Normals::new(4);
    // Uniform scores, so that no row can fall below a threshold under all of them.
    let reference: Vec<f64> = (0..500).map(|_| normals.uniform()).collect();
    let options = MonitorOptions { threshold: 0.0, ..options(4) };
    let mut monitor = monitor(&reference, options);
    let half_sd = 0.5 / 12_f64.sqrt();
    let moved: Vec<f64> = (0..500).map(|_| normals.uniform() + half_sd).collect();
    let report = monitor.update(&moved).unwrap();
    assert_eq!(report.flagged, 0);
    assert!(report.distribution.alarm_row.is_some_and(|row| row < 250), "{report:?}");
    assert_eq!(report.share.alarm_row, None);
}

/// A stream with ties, −∞ and a change, so that alarms come into it.
fn changing_stream() -> (Vec<f64>, Vec<f64>) {
    let mut normals = Normals::new(9);
    let reference = normals.take(300);
    let mut rows: Vec<f64> =
        normals.take(1500).iter().map(|score| (score * 50.0).round()).collect();
    rows[700..].iter_mut().step_by(3).for_each(|score| *score = f64::NEG_INFINITY);
    (reference.iter().map(|score| (score * 50.0).round()).collect(), rows)
}

/// All numbers that a monitor has gathered.
fn bits(monitor: &Monitor) -> Vec<u64> {
    let mut numbers: Vec<f64> = monitor.ranks.iter().collect();
    for wealth in [monitor.share.wealth(), monitor.distribution.wealth()] {
        numbers.extend([wealth.ln, wealth.largest_ln]);
        numbers.extend(&wealth.shares);
    }
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn the_cut_into_batches_does_not_matter_and_neither_do_interruptions() {
    let (reference, rows) = changing_stream();
    let mut whole = monitor(&reference, options(2));
    let last = whole.update(&rows).unwrap();
    assert!(last.alarmed());
    for size in [1, 7, 64, 1499] {
        let mut cut = monitor(&reference, options(2));
        let mut interrupted = monitor(&reference, options(2));
        let mut alarms: Vec<Alarm> = Vec::new();
        for batch in rows.chunks(size) {
            let report = cut.update(batch).unwrap();
            let (header, scores) = interrupted.state();
            let text = serde_json::to_string(&header).unwrap();
            interrupted =
                Monitor::from_state(serde_json::from_str(&text).unwrap(), &scores).unwrap();
            assert_eq!(interrupted.update(batch).unwrap(), report);
            alarms.extend(report.alarms);
        }
        assert_eq!(alarms, last.alarms);
        assert_eq!(bits(&cut), bits(&whole));
        assert_eq!(bits(&interrupted), bits(&whole));
    }
}

#[test]
fn a_report_counts_the_rows_below_the_threshold() {
    let reference: Vec<f64> = (0..100).map(f64::from).collect();
    let mut monitor = monitor(&reference, MonitorOptions::new(0.95, 5.0));
    let report = monitor.update(&[5.0, 4.9, 60.0, f64::NEG_INFINITY]).unwrap();
    assert_eq!((report.rows, report.flagged, report.share_flagged), (4, 2, 0.5));
    assert_eq!(report.lowest.map(|lowest| lowest.row), Some(3));
    let report = monitor.update(&[]).unwrap();
    assert_eq!((report.rows, report.rows_so_far, report.share_flagged), (0, 4, 0.0));
    assert!(report.lowest.is_none() && report.alarms.is_empty());
    assert_eq!(report.share, monitor.evidence(AlarmKind::Share));
}

#[test]
fn refuses_bad_options_and_nan_without_a_trace() {
    let reference: Vec<f64> = (0..20).map(f64::from).collect();
    let good = MonitorOptions::new(0.95, 5.0);
    for bad in [
        MonitorOptions { false_alarm: 0.0, ..good.clone() },
        MonitorOptions { false_alarm: 1.0, ..good.clone() },
        MonitorOptions { keep: 1.0, ..good.clone() },
        MonitorOptions { keep: f64::NAN, ..good.clone() },
        MonitorOptions { keep: 1e-20, ..good.clone() },
        MonitorOptions { threshold: f64::NAN, ..good.clone() },
    ] {
        assert!(Monitor::new(&reference, bad).is_err());
    }
    assert!(Monitor::new(&reference[1..], good.clone()).is_err());
    let mut monitor = monitor(&reference, good);
    let before = monitor.state();
    let error = monitor.update(&[1.0, f64::NAN]).unwrap_err().to_string();
    assert_eq!(error, "scores: expected numbers, got NaN in row 1");
    assert_eq!(monitor.state(), before);
}
