//! What the programs of `scripts` have in common: how they are called.

use std::process::ExitCode;

/// Runs a program with what its arguments say; or says how it is called, if they ask for that or say nothing.
pub fn run<Options>(
    usage: &str,
    read: impl FnOnce(&[String]) -> Option<Options>,
    run: impl FnOnce(Options) -> ExitCode,
) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--help"] {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    if let Some(options) = read(&arguments) {
        run(options)
    } else {
        eprintln!("{usage}");
        ExitCode::from(2)
    }
}
