//! CPU time and rate of one server in one row.

use std::time::Duration;

use drover_tests::process;

use crate::rows::Row;
use crate::servers::Server;
use crate::wrk::Wrk;

/// All that was found of one server in one row.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub rounds: Vec<Round>,
    /// System calls a request.
    pub calls: Option<f64>,
    /// Instructions outside the kernel a request.
    pub instructions: Option<f64>,
    /// Bytes of a response, head and body.
    pub response_bytes: usize,
}

/// One round.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    /// Microseconds of CPU time a request outside the kernel.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Requests a second.
    pub rate: f64,
}

impl Round {
    pub(crate) fn total(&self) -> f64 {
        self.user + self.system
    }

    /// The share of the time that the worker was not waiting.
    pub(crate) fn busy(&self) -> f64 {
        self.total() * self.rate / 1e6
    }
}

impl Figures {
    /// The median over the rounds.
    pub(crate) fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// This server's figure over another's, round by round: the median, and half of the spread.
    pub(crate) fn ratio(&self, other: &Figures, of: impl Fn(&Round) -> f64) -> (f64, f64) {
        let ratios: Vec<f64> = self.rounds.iter().zip(&other.rounds).map(|(a, b)| of(a) / of(b)).collect();
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        (median(ratios), (high - low) / 2.0)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Loads a server for some seconds and reads what its worker used meanwhile.
pub(crate) fn measure(server: &Server, row: &Row, wrk: &Wrk, seconds: u32) -> Result<Round, String> {
    let gone = || format!("the worker of {} is gone", server.kind);
    let before = process::cpu_time(server.worker).ok_or_else(gone)?;
    let outcome = wrk.run(server, row, seconds)?;
    let used = process::cpu_time(server.worker).ok_or_else(gone)?.since(before);
    let a_request = |time: Duration| time.as_secs_f64() * 1e6 / outcome.requests as f64;
    Ok(Round {
        user: a_request(used.user),
        system: a_request(used.system),
        rate: outcome.requests as f64 / outcome.seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let figures = |users: &[f64]| Figures {
            rounds: users.iter().map(|user| Round { user: *user, ..Round::default() }).collect(),
            ..Figures::default()
        };
        let (ratio, spread) = figures(&[2.0, 4.0, 30.0]).ratio(&figures(&[1.0, 2.0, 10.0]), Round::total);
        assert_eq!((ratio, spread), (2.0, 0.5));
        assert_eq!(figures(&[1.0, 3.0]).median(Round::total), 2.0);
    }
}
