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
            // What fills a cell is written with the next one: no line ends in it. It is not left to a width of the formatter,
            // which panics above 65535.
            let mut fill = 0;
            for (cell, width) in row.iter().zip(widths) {
                if !cell.is_empty() {
                    f.write_str(&" ".repeat(fill))?;
                    f.write_str(cell)?;
                    fill = 0;
                }
                fill += width.saturating_sub(cell.chars().count()) + GAP;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Between two columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_one_another_and_no_line_ends_in_blanks() {
        let mut table = Table::headed(["node", "state", "said"]);
        table.push(["a".to_owned(), "votes".to_owned(), String::new()]);
        table.push(["ключ:1".to_owned(), String::new(), "x".to_owned()]);
        let lines = "node    state  said\na       votes\nключ:1         x\n";
        assert_eq!(table.to_string(), lines);
    }

    #[test]
    fn a_cell_may_be_longer_than_a_formatter_can_fill() {
        let long = "x".repeat(100_000);
        let mut table = Table::headed(["node", "owner"]);
        table.push(["a".to_owned(), long.clone()]);
        table.push([long.clone(), "b".to_owned()]);
        let text = table.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1].len(), 2 * long.len() + GAP);
        assert_eq!(lines[2], format!("{long}  b"));
    }
}
