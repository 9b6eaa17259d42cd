//! The one table: a line for each figure, drover first, the others with their ratio.

use std::hint::black_box;
use std::time::Instant;

/// Prints rows as they become known.
pub(crate) struct Table;

/// A contender of a row and what it took in each round.
pub(crate) struct Column {
    name: &'static str,
    rounds: Vec<f64>,
}

impl Column {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, rounds: Vec::new() }
    }

    pub(crate) fn note(&mut self, value: f64) {
        self.rounds.push(value);
    }

    fn median(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        println!(
            "{:<44} {:>14}   the alternatives, and how many times as much they take",
            "figure", "drover"
        );
        Self
    }

    /// Prints a row whose first column is drover's.
    pub(crate) fn row(&mut self, figure: &str, unit: &str, columns: &[Column]) {
        let own = columns[0].median();
        print!("{figure:<44} {own:>9.1} {unit:<5}");
        for column in &columns[1..] {
            let other = column.median();
            print!("  {} {other:.1} ({:.2}x)", column.name, other / own);
        }
        println!();
    }

    /// Prints what the rows above do not tell by themselves.
    pub(crate) fn remark(&self, text: &str) {
        println!("    {text}");
    }
}

/// Nanoseconds per operation of `run`, which does `operations` of them.
pub(crate) fn per_operation<T>(operations: u64, run: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    black_box(run());
    begun.elapsed().as_nanos() as f64 / operations as f64
}

/// Numbers that look random and are the same in every run (xorshift64*).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let word = (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32;
        ((u64::from(word) * u64::from(limit)) >> 32) as u32
    }
}
