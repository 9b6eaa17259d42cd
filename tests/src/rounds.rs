//! What benchmarks find of one program in several rounds, and how it is told.

/// One round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Round {
    /// Microseconds of CPU time outside the kernel, for each of what is counted.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// How many of what is counted a second.
    pub rate: f64,
}

impl Round {
    /// CPU time in and outside the kernel.
    pub fn total(&self) -> f64 {
        self.user + self.system
    }

    /// The share of the time that the worker was not waiting.
    pub fn busy(&self) -> f64 {
        self.total() * self.rate / 1e6
    }
}

/// All rounds of one program.
#[derive(Debug, Default)]
pub struct Rounds(pub Vec<Round>);

impl Rounds {
    /// The median over the rounds.
    pub fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.0.iter().map(of).collect())
    }

    /// This program's figure over another's, round by round: the median, and half of the spread.
    pub fn ratio(&self, other: &Rounds, of: impl Fn(&Round) -> f64) -> (f64, f64) {
        let ratios: Vec<f64> = self.0.iter().zip(&other.0).map(|(a, b)| of(a) / of(b)).collect();
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

/// `1.25 ±0.03`
pub fn ratio((ratio, spread): (f64, f64)) -> String {
    format!("{ratio:.2} ±{spread:.2}")
}

/// `98 %`
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `1,234,567`
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let rounds = |users: &[f64]| {
            Rounds(users.iter().map(|user| Round { user: *user, ..Round::default() }).collect())
        };
        let (ratio, spread) = rounds(&[2.0, 4.0, 30.0]).ratio(&rounds(&[1.0, 2.0, 10.0]), Round::total);
        assert_eq!((ratio, spread), (2.0, 0.5));
        assert_eq!(rounds(&[1.0, 3.0]).median(Round::total), 2.0);
    }

    #[test]
    fn groups_thousands() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(0.0), "0");
    }
}
