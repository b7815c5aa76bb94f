//! Columns, for what a person reads.

use std::fmt;

/// Rows whose cells stand below one another. The last cell of a row may be as long as it likes.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize>(Vec<[String; COLUMNS]>);

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn headed(head: [&str; COLUMNS]) -> Self {
        Self(vec![head.map(str::to_owned)])
    }

    pub(crate) fn push(&mut self, row: [String; COLUMNS]) {
        self.0.push(row);
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.0.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for row in &self.0 {
            let cells = row.iter().zip(widths);
            let line: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
    }
}
