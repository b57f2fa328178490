//! Bets against "nothing has changed", with exact odds.
//!
//! As long as the rows are exchangeable, their p-values are independent and uniform. A bet pays
//! f(p) ≥ 0 for each unit staked on it, where f has the integral 1 over [0, 1]: fair, so the wealth
//! is a martingale that starts at 1, and the chance that it ever reaches c is at most 1/c (Ville's
//! inequality). Wealth is therefore evidence: 200 is as surprising as a p-value of 1/200, whenever
//! one chooses to look.
//!
//! The wealth is spread over several bets, one of them neutral, and before each row a part of it is
//! spread anew (the simple jumper of Vovk et al., "Retrain or not retrain", 2021). To move stakes
//! between fair bets is fair. Here that part falls with the rows, see [`part_spread_anew`].

use serde::{Deserialize, Serialize};

/// Rows after which the part that is spread anew has fallen to half.
const HALVING_ROWS: f64 = 1000.0;

/// How the odds of a row to be among the lowest may have grown: from a slow drift to a stream of
/// OoD rows.
const ODDS: [f64; 4] = [1.5, 3.0, 8.0, 32.0];

/// Slopes of the bets on a move up or down: the small ones find moves of a quarter of a standard
/// deviation, which ±1.5 alone miss. ±2 would be the steepest that never pays below 0.
const SLOPES: [f64; 4] = [-1.5, -0.5, 0.5, 1.5];

/// Weights of the bets on a narrower (below 0) or wider spread; −0.5 to 1 never pay below 0.
const SPREADS: [f64; 3] = [-0.4, 0.4, 0.8];

/// The part of the wealth that is spread anew before a row.
///
/// The neutral bet neither wins nor loses, and keeps at least ∏ (1 − 1/(t + 1000)) =
/// 1000/(1000 + rows) of its stake, so that no quiet stretch can ruin the wealth. In simulations,
/// 20 % OoD rows were found in 66 rows after 1000 quiet ones, and in 104 after 200,000 (medians). A
/// constant part of 0.001 loses e^(−rows/1000) in quiet rows and took 61 and 894.
fn part_spread_anew(row: usize) -> f64 {
    1.0 / (row as f64 + 1.0 + HALVING_ROWS)
}

/// A fair bet on a p-value.
#[derive(Debug, Clone, Copy)]
enum Bet {
    /// On nothing: keeps its stake.
    Neutral,
    /// That more than the share `lowest` of the p-values are at or below it.
    Low { lowest: f64, pays: f64, otherwise: f64 },
    /// That the p-values moved up (slope over 0) or down: 1 + e (p − ½).
    Slope(f64),
    /// That they moved to the ends (over 0) or to the middle: 1 + e (12 (p − ½)² − 1).
    Spread(f64),
}

impl Bet {
    /// The best bet if the odds of the event `p ≤ lowest` have grown by this factor.
    fn low(lowest: f64, odds: f64) -> Self {
        let share = lowest * odds / (lowest * odds + 1.0 - lowest);
        Bet::Low { lowest, pays: share / lowest, otherwise: (1.0 - share) / (1.0 - lowest) }
    }

    /// What one unit of stake becomes.
    fn payment(self, p: f64) -> f64 {
        let off_centre = p - 0.5;
        match self {
            Bet::Neutral => 1.0,
            Bet::Low { lowest, pays, .. } if p <= lowest => pays,
            Bet::Low { otherwise, .. } => otherwise,
            Bet::Slope(slope) => 1.0 + slope * off_centre,
            Bet::Spread(weight) => 1.0 + weight * (12.0 * off_centre * off_centre - 1.0),
        }
    }
}

/// The wealth of a martingale. Kept as a logarithm, because it may grow beyond any number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Wealth {
    /// Natural logarithm of the whole.
    pub(super) ln: f64,
    /// The largest that `ln` has been.
    pub(super) largest_ln: f64,
    /// The share of the whole on each bet.
    pub(super) shares: Vec<f64>,
}

/// Several bets and the wealth they made.
#[derive(Debug, Clone)]
pub(super) struct Martingale {
    bets: Vec<Bet>,
    wealth: Wealth,
}

impl Martingale {
    /// Bets that more rows than before fall among the lowest share (between 0 and 1) of the scores.
    pub(super) fn share(lowest: f64) -> Self {
        Self::new(ODDS.map(|odds| Bet::low(lowest, odds)).to_vec())
    }

    /// Bets that the scores moved up, moved down, came closer together or went apart.
    pub(super) fn distribution() -> Self {
        Self::new(SLOPES.map(Bet::Slope).into_iter().chain(SPREADS.map(Bet::Spread)).collect())
    }

    fn new(mut bets: Vec<Bet>) -> Self {
        bets.push(Bet::Neutral);
        let shares = vec![1.0 / bets.len() as f64; bets.len()];
        Martingale { bets, wealth: Wealth { ln: 0.0, largest_ln: 0.0, shares } }
    }

    /// The same bets with the wealth of an earlier run, if it can be theirs.
    pub(super) fn with_wealth(self, wealth: Wealth) -> Option<Self> {
        let possible = wealth.shares.len() == self.bets.len()
            && wealth.shares.iter().all(|&share| share >= 0.0)
            && (wealth.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9
            && wealth.ln.is_finite()
            && wealth.largest_ln.is_finite()
            && wealth.largest_ln >= wealth.ln;
        possible.then_some(Martingale { wealth, ..self })
    }

    /// The wealth so far.
    pub(super) fn wealth(&self) -> &Wealth {
        &self.wealth
    }

    /// Plays the p-value of a row, counted from 0.
    pub(super) fn play(&mut self, p: f64, row: usize) {
        let Wealth { ln, largest_ln, shares } = &mut self.wealth;
        let part = part_spread_anew(row);
        let anew = part / shares.len() as f64;
        let mut growth = 0.0;
        for (share, bet) in shares.iter_mut().zip(&self.bets) {
            *share = ((1.0 - part) * *share + anew) * bet.payment(p);
            growth += *share;
        }
        shares.iter_mut().for_each(|share| *share /= growth);
        *ln += libm::log(growth);
        *largest_ln = largest_ln.max(*ln);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::uniform::uniform;

    fn martingales() -> Vec<Martingale> {
        let mut all: Vec<Martingale> =
            [0.005, 0.05, 0.5, 0.95].into_iter().map(Martingale::share).collect();
        all.push(Martingale::distribution());
        all
    }

    #[test]
    fn every_bet_is_fair_and_never_pays_below_zero() {
        let steps = 100_000;
        for bet in martingales().into_iter().flat_map(|martingale| martingale.bets) {
            let middles = (0..steps).map(|step| (f64::from(step) + 0.5) / f64::from(steps));
            let integral = middles.map(|p| bet.payment(p)).sum::<f64>() / f64::from(steps);
            // The midpoint rule misses x² by step²/12, times 12 · 0.8 here; sums round.
            assert!((integral - 1.0).abs() < 1e-9, "{bet:?}: {integral}");
            for p in [0.0, 0.5, 1.0] {
                assert!(bet.payment(p) > 0.0, "{bet:?}");
            }
        }
    }

    #[test]
    fn moving_stakes_keeps_the_mean_wealth() {
        // Over a grid of first and second p-values, the mean wealth after two rows is 1.
        let grid = 200;
        for start in martingales() {
            let mut mean = 0.0;
            for cell in 0..grid * grid {
                let mut martingale = start.clone();
                let middle = |index: i32| (f64::from(index) + 0.5) / f64::from(grid);
                martingale.play(middle(cell / grid), 0);
                martingale.play(middle(cell % grid), 1);
                mean += martingale.wealth.ln.exp() / f64::from(grid * grid);
            }
            // The grid fits the lowest shares; the midpoint rule misses 12 e x² by e/200².
            assert!((mean - 1.0).abs() < 1e-4, "{mean}");
        }
    }

    #[test]
    fn a_quiet_stretch_cannot_ruin_the_wealth() {
        for mut martingale in martingales() {
            for row in 0..50_000 {
                martingale.play(uniform(5, row as u64), row);
            }
            let kept = HALVING_ROWS / (HALVING_ROWS + 50_000.0) / martingale.bets.len() as f64;
            assert!(martingale.wealth.ln >= kept.ln() - 1e-9);
        }
    }

    #[test]
    fn wealth_grows_without_overflow() {
        let mut martingale = Martingale::share(0.05);
        for row in 0..1000 {
            martingale.play(0.01, row);
        }
        let Wealth { ln, largest_ln, ref shares } = martingale.wealth;
        assert!(ln > 1000.0 * 2.0 && ln.is_finite() && largest_ln == ln);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn refuses_a_wealth_that_cannot_be_its_own() {
        let good = Martingale::distribution().wealth;
        let put = |wealth: Wealth| Martingale::distribution().with_wealth(wealth);
        assert!(put(good.clone()).is_some());
        assert!(put(Wealth { ln: f64::NAN, ..good.clone() }).is_none());
        assert!(put(Wealth { ln: 1.0, ..good.clone() }).is_none());
        assert!(put(Wealth { shares: vec![0.5; 8], ..good.clone() }).is_none());
        assert!(put(Wealth { shares: vec![1.0], ..good }).is_none());
    }
}
