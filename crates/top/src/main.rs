//! `drover-top`: the workers of a running drover, live in the terminal.
//!
//! It links neither the daemon nor its scoreboard: it reads what `drover status --json --every` prints, one object
//! a line, as any program could. `drover top` starts it.
//!
//! ```text
//! source (a thread reads lines) ──> status ──> history (rates, sparklines) ──> view ──> terminal
//!                                                    keys ──> app ──┘
//! ```

mod app;
mod figures;
mod history;
mod source;
mod status;
mod view;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ratatui::crossterm::event::{self, Event};

use app::App;
use source::{News, Source};

/// The workers of a running drover, live in the terminal
#[derive(Parser, Debug)]
#[command(name = "drover top", version)]
struct Arguments {
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: String,
    /// The drover that is asked for its status
    #[arg(long, value_name = "PROGRAM", default_value = "drover", hide = true)]
    drover: PathBuf,
    /// Which daemon, in options of `drover status`: -c FILE
    #[arg(last = true, value_name = "OPTIONS")]
    which: Vec<OsString>,
}

/// How long a key may wait for an answer.
const KEYS: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let source = Source::start(&arguments.drover, &arguments.which, &arguments.every)?;
    // Before the screen is taken: what is wrong is said as any command says it.
    let first = source.first()?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let mut app = App::new(!no_colour);
    app.take(first);
    let mut terminal = ratatui::try_init()?;
    let ended = turn(&mut terminal, &mut app, &source);
    ratatui::try_restore()?;
    ended.map_err(Into::into)
}

/// Draws, and looks for keys and news, until it is over.
fn turn(terminal: &mut ratatui::DefaultTerminal, app: &mut App, source: &Source) -> std::io::Result<()> {
    let mut changed = true;
    while !app.is_over() {
        while let Some(news) = source.next() {
            match news {
                News::Status(status) => app.take(*status),
                News::Ended(reason) => app.lose(reason),
            }
            changed = true;
        }
        if changed {
            terminal.draw(|frame| view::draw(frame, app))?;
        }
        changed = event::poll(KEYS)?;
        if changed {
            match event::read()? {
                Event::Key(key) if key.is_press() => app.press(key),
                // Drawing asks for the size.
                _ => {}
            }
        }
    }
    Ok(())
}
