//! A screen as a picture: SVG, so that a document can show what a terminal shows.
//!
//! Receives a parsed screen; hands out SVG whose rows are text.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// Size of a character and of the margin, in pixels.
const CHARACTER: (usize, usize) = (9, 20);
const MARGIN: usize = 16;
/// The sixteen colours, and those of the page.
const PALETTE: [&str; 16] = [
    "#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#bac2de",
    "#6c7086", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#ffffff",
];
const TEXT: &str = "#cdd6f4";
const PAGE: &str = "#1e1e2e";

/// The screen down to its last row that is not empty.
pub fn svg(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let rows: Vec<String> = (0..rows).map(|row| line(screen, row, columns)).collect();
    let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    let width = usize::from(columns) * CHARACTER.0 + 2 * MARGIN;
    let height = used * CHARACTER.1 + 2 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"15\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAGE}\"/>\n"
    );
    for (index, row) in rows.iter().take(used).enumerate() {
        let y = MARGIN + (index + 1) * CHARACTER.1 - 5;
        let start =
            format!("<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{TEXT}\" xml:space=\"preserve\">");
        writeln!(text, "{start}{row}</text>").expect("a string takes all");
    }
    text.push_str("</svg>\n");
    text
}

fn line(screen: &Screen, row: u16, columns: u16) -> String {
    let cells = (0..columns).filter_map(|column| screen.cell(row, column));
    let cells: Vec<&Cell> = cells.filter(|cell| !cell.is_wide_continuation()).collect();
    let plain = |cell: &&Cell| cell.contents().trim().is_empty() && !cell.inverse();
    let used = cells.iter().rposition(|cell| !plain(cell)).map_or(0, |last| last + 1);
    let groups = cells[..used].chunk_by(|a, b| look(a) == look(b));
    groups.map(span).collect()
}

fn look(cell: &Cell) -> String {
    let colour = match cell.fgcolor() {
        Color::Default => String::new(),
        Color::Idx(index) => {
            PALETTE.get(usize::from(index)).map(|c| format!(" fill=\"{c}\"")).unwrap_or_default()
        }
        Color::Rgb(r, g, b) => format!(" fill=\"#{r:02x}{g:02x}{b:02x}\""),
    };
    let mut look = colour;
    for (is_so, words) in [
        (cell.bold(), " font-weight=\"bold\""),
        (cell.italic(), " font-style=\"italic\""),
        (cell.underline(), " text-decoration=\"underline\""),
        (cell.dim(), " opacity=\"0.6\""),
    ] {
        if is_so {
            look.push_str(words);
        }
    }
    look
}

fn span(group: &[&Cell]) -> String {
    let text: String = group
        .iter()
        .map(|cell| match (cell.contents(), cell.inverse()) {
            ("" | " ", true) => "█",
            ("", false) => " ",
            (contents, _) => contents,
        })
        .collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    match group.first().map(|cell| look(cell)).unwrap_or_default() {
        look if look.is_empty() => text,
        look => format!("<tspan{look}>{text}</tspan>"),
    }
}
